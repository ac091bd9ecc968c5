"""Strays: records that an older ottla wrote into the wrong partition of a coordinator's topic.

naming.py finds the name that a record belongs to, from its key. units.py reads the records of some names from
a log: groups, their offsets, transactional ids, share partitions. homing.py decides which strays are copied
to the right partition, and which are deleted.
"""
