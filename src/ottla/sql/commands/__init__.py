"""Statements that change something, as records of a topic, and the state that they make."""
