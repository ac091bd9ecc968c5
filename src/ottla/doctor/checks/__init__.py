"""The checks, a family a module; `table.py` lists them all. Pure functions over the frozen snapshot."""
