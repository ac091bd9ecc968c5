"""State that lives in compacted topics: every instance replays it, and the primary alone decides writes."""
