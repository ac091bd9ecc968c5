"""The pipeline's scenarios on ottla's Streams.

Arguments: bootstrap, the program (upper, windowed-count, count), the input topic, the output topic, the
application's name, its directory, the records of a batch at most (0: all there are), and the mode: "auto",
which is micro-batches as long as output is exactly once, or "real-time", where records may come twice after
a failure. Ends by SIGTERM.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from pyspark.sql import functions as F

from ottla.pipeline.formats import BYTES, time_windowed
from ottla.pipeline.query.realtime import Wanted
from ottla.streams import Streams, StreamsSettings, tumbling

WINDOW = timedelta(minutes=1)


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
            at_least_once=Wanted(mode) is Wanted.REAL_TIME,
        )
    )


if __name__ == "__main__":
    main()
