"""Plans onto Streams: expressions evaluated in Python or as Spark's columns, queries as topologies."""
