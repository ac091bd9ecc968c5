"""Other projects' own tests and clients, run against ottla and against Apache Kafka 4.3.1 in turns."""
