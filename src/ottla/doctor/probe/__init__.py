"""`ottla doctor --probe`: records written to and read back from every broker, for as long as the user wants.

figures.py   availability, losses, outages and latencies, counted from the records' fates; no I/O
topic.py     the probe's topic: a partition that each broker leads
paths.py     one partition's way: a writer that tries every tick, a reader of all that comes
running.py   a probe as a whole
"""
