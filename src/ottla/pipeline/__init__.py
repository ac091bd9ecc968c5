"""Pipelines on Spark through PySpark: the parts that every query of ottla is built from.

| package or module | purpose |
|---|---|
| `spark` | start Spark: on this machine, on any master, through Spark Connect |
| `query.source` | topics as frames: from the start, the end, a time or offsets; read_committed |
| `formats` | bytes to typed columns and back: JSON, Avro, Protobuf, JSON Schema, Kafka's serializers |
| `sink.dead_letters` | the columns of the dead-letter topic, for records that can't be read |
| `sink.exactly_once` | the sink that writes every row once, whatever is killed |
| `query.query`, `.query_spec` | a query's life: admitted, started, watched, stopped after its batch |
| `query.progress`, `.metrics` | a query as a consumer group, as Prometheus metrics |
| `query.live_view` | queries in the terminal |
| `query.realtime` | whether a query runs in Spark's real-time mode or in micro-batches, and why |

The DSL that stands on it is `ottla.streams`.

Nothing is imported here, so that the `ottla` command starts fast.
"""
