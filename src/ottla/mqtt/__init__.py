"""MQTT to and from any Kafka cluster: `ottla mqtt`."""
