"""The metrics and the health of a node: readers of the integers that its parts keep, and request meters.

    requests.py        requests, errors and times by API: put around the handlers when metrics are on
    topics.py          messages, bytes and requests by topic
    partitions.py      logs, in-sync sets, leaders
    network.py         connections, memory, the loop's idle share and lag
    metadata.py        the quorum, the controller, the metadata on this node
    coordinators.py    groups, transactions, share groups
    telemetry.py       clients that push their metrics, and the way of these to a collector
    maintenance.py     cleaner, quotas' and purgatories' sizes, fetch sessions
    health.py          the checks behind /healthz and /readyz
    node_metrics.py    puts them together behind the endpoint

Nothing here is imported unless `ottla.metrics.listen` is set. A reader takes copies of what it walks through,
and gives None every few partitions, so that the loop may turn (metrics/exposition.py).
"""
