"""Reading files of a data directory without changing them: for people who look, and for a check of every byte.

The broker's own readers (`ottla.storage.log`, …) make indexes again, cut torn tails and keep files open. Nothing here
opens a file for writing, makes one, or locks one, so a directory may be looked at while a broker writes it.
"""
