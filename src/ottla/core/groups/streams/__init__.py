"""Streams groups (KIP-1071): a Kafka Streams application whose tasks the coordinator hands out.

tasks.py            what a member should have, and what it has
topology.py         what the application reads, keeps and writes, as its members tell it
configured.py       the topology against the cluster's topics: counts, problems, topics to make
assignor.py         which member runs which task
reconciliation.py   how a member gets from what it has to what it should have
group.py            the state, and how records change it; records.py makes the records
membership.py       decides: heartbeats, sessions, topics that change
offset_rules.py     what the kind says about committed offsets
description.py      what administrators are shown
"""
