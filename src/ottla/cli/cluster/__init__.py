"""Commands about a cluster: its topics, settings, groups, transactions, quorum and partitions."""
