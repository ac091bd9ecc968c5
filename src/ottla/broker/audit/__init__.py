"""The audit log of this node: events taken, sealed into the node's chain, written to the log's topic."""
