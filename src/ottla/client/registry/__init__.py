"""The client of a Schema Registry: requests and answers, kept answers, and two transports."""
