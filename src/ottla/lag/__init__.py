"""Lag of groups on any Kafka cluster: read once, or watched, judged by Burrow's rules and told over HTTP."""
