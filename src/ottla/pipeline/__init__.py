"""Pipelines on Spark through PySpark: what every query of ours has, whatever it does.

| module | what for |
|---|---|
| `session` | start Spark: on this machine, on any master, through Spark Connect |
| `source` | topics as frames: from the start, the end, a time or offsets; read_committed |
| `formats` | bytes to typed columns and back: JSON, Avro, Protobuf, JSON Schema, Kafka's serializers |
| `dead_letters` | what becomes of records that can't be read |
| `exactly_once` | the sink that writes every row once, whatever is killed |
| `query` | a query's life: admitted, started, watched, stopped after its batch; `query_spec.reset_query` |
| `progress`, `metrics`, `live_view` | a query as a consumer group, as Prometheus metrics, in the terminal |
| `realtime` | which of Spark's modes a query gets, and why |
| `streams` | the DSL (public as `ottla.streams`) |

Nothing is imported here: the command starts fast.
"""
