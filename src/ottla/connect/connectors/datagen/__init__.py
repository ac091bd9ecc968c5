"""Datagen: made-up records, by Avro schemas that say how their values are drawn."""
