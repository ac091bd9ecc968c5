"""`ottla log`: looks into the files of a data directory, or into a partition on a live broker."""
