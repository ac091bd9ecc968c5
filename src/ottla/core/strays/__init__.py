"""Strays: what an older ottla wrote into the wrong partition of a coordinator's topic, and its way home.

naming.py   whose record it is, read off its key
units.py    what a log says of some names: groups, their offsets, transactional ids, share partitions
homing.py   what is copied to where it belongs, and what is deleted where it was
"""
