"""Avro: parsing, normal form and schema resolution."""
