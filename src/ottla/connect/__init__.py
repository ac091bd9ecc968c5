"""Connect: connectors between Kafka and other systems, with Kafka Connect's REST API and configuration."""
