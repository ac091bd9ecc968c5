"""The tables of Kafka's settings and the layers that give each its value."""
