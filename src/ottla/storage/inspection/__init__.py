"""Reads the files of a data directory without changing them, for a person who looks or to check every byte.

The broker's own readers (`ottla.storage.log`, …) make indexes again, cut torn tails and keep files open.
Nothing here opens a file for writing, makes one, or locks one, so a directory may be looked at while a broker
writes it.
"""
