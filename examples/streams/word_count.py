"""Count words: lines of text in, a table of counts out, which stays correct after any crash.

The topics lines and word-counts must exist; any Kafka client can create them.

    ottla streams run examples/streams/word_count.py
"""

from pyspark.sql import functions as F

from ottla.streams import Streams

app = Streams("word-count")

words = app.stream("lines", value=str).flat_map_values(lambda line: F.split(F.lower(line.value), r"\W+"))

counts = words.filter(lambda word: word.value != "").group_by(lambda word: word.value).count(name="words")

counts.to("word-counts", key=str, value=int)
