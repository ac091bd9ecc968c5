"""Streams groups (KIP-1071): Kafka Streams applications whose tasks the coordinator assigns.

tasks.py            the tasks of a member: its target, and those it holds
topology.py         the application's topology, as its members send it
configured.py       the topology against the cluster's topics: counts, problems, topics to make
assignor.py         the assignment of tasks to members
reconciliation.py   a member's steps from the tasks it holds to its target
group.py            the state, and its change by records; records.py makes the records
membership.py       decides heartbeats, and follows changes of topics; checks.py, heartbeats.py
departures.py       sessions and other deadlines
internal_topics.py  requests for missing internal topics
endpoints.py        the partitions at each endpoint for interactive queries
offset_rules.py     the rules for committed offsets
description.py      StreamsGroupDescribe and ListGroups
coordinator.py      routes the shard's events to all of these
"""
