"""`ottla mirror FILE`: the flows of an mm2.properties file, each a set of connectors."""
