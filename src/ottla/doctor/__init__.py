"""`ottla doctor`: a cluster looked at once, in seconds, and told in words: its faults, and their mends.

reading/   the look: a bounded round of requests, which makes a `Snapshot`
checks/    pure functions over the frozen snapshot, a family of faults a module
probe/     records produced and consumed end to end through every broker

Works on every Kafka cluster: nothing but `ottla.client` reaches it.
"""
