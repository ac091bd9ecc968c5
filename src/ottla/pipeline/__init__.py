"""Pipelines on Spark through PySpark: what every query of ours has, whatever it does.

| room or module | what for |
|---|---|
| `spark` | start Spark: on this machine, on any master, through Spark Connect |
| `query.source` | topics as frames: from the start, the end, a time or offsets; read_committed |
| `formats` | bytes to typed columns and back: JSON, Avro, Protobuf, JSON Schema, Kafka's serializers |
| `sink.dead_letters` | what becomes of records that can't be read |
| `sink.exactly_once` | the sink that writes every row once, whatever is killed |
| `query.query` | a query's life: admitted, started, watched, stopped after its batch; `query_spec` |
| `query.progress`, `.metrics` | a query as a consumer group, as Prometheus metrics |
| `query.live_view` | queries in the terminal |
| `query.realtime` | which of Spark's modes a query gets, and why |

The DSL that stands on it is `ottla.streams`.

Nothing is imported here: the command starts fast.
"""
