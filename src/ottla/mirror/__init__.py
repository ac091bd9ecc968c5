"""MirrorMaker: the topics of one cluster in another, under Connect's runtime.

Rooms: `core` (policies, patterns, plans: no I/O), `source` (the task that copies batches, and what follows
topics, settings and rights), `checkpoints` (offset syncs, checkpoints, heartbeats), `run` (mm2.properties).
"""
