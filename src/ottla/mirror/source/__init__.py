"""MirrorSource: copies the records of topics, whole batches wherever nothing in them changes."""
