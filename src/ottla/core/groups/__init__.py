"""Consumer groups: membership, assignment, offsets."""
