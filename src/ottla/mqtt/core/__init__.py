"""MQTT 3.1.1 and 5 as values and decisions: no I/O, no clock, no dice."""
