"""Connect's data model: schemas, structs and records, as converters, transforms and connectors share them."""
