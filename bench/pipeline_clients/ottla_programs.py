"""The pipeline's scenarios on ottla's Streams.

Arguments: bootstrap, the program (a value of peers.Program), the input topic, the output topic, the
application's name, its directory, the records of a batch at most (0: all there are), and the mode: "auto",
which is micro-batches as long as output is exactly once, or "real-time", where records may come twice after
a failure. Ends by SIGTERM.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from pyspark.sql import Column
from pyspark.sql import functions as F

from ottla.pipeline.formats import BYTES, TEXT, json, time_windowed
from ottla.pipeline.query.realtime import Wanted
from ottla.streams import Streams, StreamsSettings, tumbling
from ottla.streams.plan.records import Record

WINDOW = timedelta(minutes=1)
DEAD_LETTERS = "dead-letters"
"""The topic for records that the programs on JSON can't read."""
EVENT = json("NAME STRING, MS INT")


def _louder(record: Record) -> Column:
    return F.struct(F.upper(record.value["NAME"]).alias("NAME"), (record.value["MS"] * 2).alias("MS"))


def main() -> None:
    bootstrap, program, source, sink, name, directory, batch_records, mode = sys.argv[1:]
    app = Streams(name)
    match program:
        case "upper":
            upper = app.stream(source, value=str).map_values(lambda record: F.upper(record.value))
            upper.to(sink, value=str, name="out")
        case "windowed-count":
            minutes = app.stream(source).group_by_key().windowed_by(tumbling(WINDOW, grace=WINDOW))
            minutes.count().to(sink, key=time_windowed(BYTES, window_size_ms=60_000), value=int, name="out")
        case "count":
            app.stream(source).group_by_key().count().to(sink, value=int, name="out")
        case "json-filter":
            large = app.stream(source, key=str, value=EVENT).filter(lambda record: record.value["MS"] >= 10)
            large.map_values(_louder).to(sink, key=str, value=json("NAME STRING, MS INT"), name="out")
        case "json-windowed-count":
            events = app.stream(source, key=str, value=EVENT)
            minutes = events.group_by_key().windowed_by(tumbling(WINDOW, grace=WINDOW))
            counted = minutes.count().map_values(lambda record: F.struct(record.value.alias("N")))
            key = time_windowed(TEXT, window_size_ms=60_000)
            counted.to(sink, key=key, value=json("N BIGINT"), name="out")
        case _:
            sys.exit(f"no program {program}")
    app.run(
        StreamsSettings(
            bootstrap,
            Path(directory) / "state",
            master="local[2]",
            partitions=2,
            driver_memory="2g",
            batch_records=int(batch_records) or None,
            mode=Wanted(mode),
            # as on a SQL server, beside which these run
            dead_letters=DEAD_LETTERS if program.startswith("json") else None,
            at_least_once=Wanted(mode) is Wanted.REAL_TIME,
        )
    )


if __name__ == "__main__":
    main()
