"""Other projects' own tests and clients, run against ottla and against Apache Kafka 4.4.0 in turns."""
