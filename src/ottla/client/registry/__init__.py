"""The one client of a Schema Registry: what is said on the wire, what is kept, and two ways to send it."""
