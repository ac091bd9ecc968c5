"""What all change data capture has in common, without I/O: filters, names, schemas, envelopes."""
