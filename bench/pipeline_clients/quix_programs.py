"""The pipeline's scenarios as quixstreams programs; run by a Python of their own (quixstreams.lock).

Arguments: bootstrap, the program (upper, windowed-count, count), the input topic, the output topic, the
application's name, its state directory and the commit interval in seconds. Ends by SIGTERM.
"""

from __future__ import annotations

import sys
from datetime import timedelta

from quixstreams import Application  # type: ignore[import-not-found]

WINDOW = timedelta(minutes=1)


def main() -> None:
    bootstrap, program, source, sink, name, state_dir, commit_interval = sys.argv[1:]
    application = Application(
        broker_address=bootstrap,
        consumer_group=name,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=float(commit_interval),
        state_dir=state_dir,
        # Isolation read_committed is what exactly-once sets; the rest as for its peers.
        producer_extra_config={"compression.type": "lz4"},
        loglevel="WARNING",
    )
    match program:
        case "upper":
            # Bytes in, bytes out: the fastest way in Python, and right for the letters that are sent.
            records = application.dataframe(
                application.topic(source, key_deserializer="bytes", value_deserializer="bytes")
            )
            records = records.apply(bytes.upper)
            records.to_topic(application.topic(sink, key_serializer="bytes", value_serializer="bytes"))
        case "windowed-count":
            records = application.dataframe(
                application.topic(source, key_deserializer="bytes", value_deserializer="bytes")
            )
            counts = records.tumbling_window(WINDOW, grace_ms=WINDOW).count().current()
            counts.to_topic(application.topic(sink, key_serializer="bytes", value_serializer="json"))
        case "count":
            records = application.dataframe(
                application.topic(source, key_deserializer="bytes", value_deserializer="bytes")
            )
            counts = records.apply(_count, stateful=True)
            counts.to_topic(application.topic(sink, key_serializer="bytes", value_serializer="int"))
        case _:
            sys.exit(f"no program {program}")
    application.run()


def _count(value: bytes, state: object) -> int:
    count: int = state.get("count", 0) + 1  # type: ignore[attr-defined]
    state.set("count", count)  # type: ignore[attr-defined]
    return count


if __name__ == "__main__":
    main()
