"""The examples' inputs, the expected outputs by a plain model, and the Java application beside them.

The models are written from Kafka Streams' documentation, over the whole input at once. All times are
milliseconds since 1970.
"""

from __future__ import annotations

import collections
import json
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.connection_clients import janino_jars
from confluent_kafka import Producer

from support.java.streams_apps import (
    STREAMS_FLAGS,
    StreamsProcess,
    streams_classpath,
    streams_process,
    write_properties,
)

PROGRAM = Path(__file__).parents[1] / "java" / "StreamsFidelity.java"
EXAMPLES = Path(__file__).parents[3] / "examples" / "streams"
PARTITIONS = 2
# Janino compiles for old runtimes otherwise, which did not have them.
STATIC_METHODS_OF_INTERFACES = "-Dorg.codehaus.janino.UnitCompiler.defaultTargetVersion=8"

MINUTE_MS = 60_000
GRACE_MS = 30_000
BEGIN_MS = 1_790_000_040_000  # the begin of a minute
# Out of order by less than the grace, so that no application may drop any of them.
DISORDER_MS = 25_000
LEAST_CLICKS = 3

Counter = collections.Counter[str]

_WORDS = ("Spark", "kafka", "STREAMS", "table", "a", "key", "value", "it's", "42", "Ünicode", "window")
_REGIONS = ("africa", "america", "asia", "europe")


@dataclass(frozen=True, slots=True)
class Sent:
    """A record of an input topic. partition: where it must go, None: where its key belongs."""

    topic: str
    key: str | None
    value: str | None
    timestamp_ms: int
    partition: int | None = None


def lines(seed: int, count: int = 300) -> list[Sent]:
    """Lines of a few words, with all that separates words, and empty ones."""
    numbers = random.Random(seed)
    sent = []
    for number in range(count):
        words = numbers.choices(_WORDS, k=numbers.randrange(9))
        line = numbers.choice((" ", ", ", " -- ")).join(words) + numbers.choice(("", ".", " "))
        sent.append(Sent("lines", f"line-{number}", line, BEGIN_MS + number))
    return sent


def counted_words(sent: Sequence[Sent]) -> Counter:
    words: Counter = collections.Counter()
    for each in sent:
        # As Java has it by default: the letters of words are ASCII's.
        words.update(word for word in re.split(r"\W+", (each.value or "").lower(), flags=re.ASCII) if word)
    return words


def views_and_users(seed: int, count: int = 1_500, users: int = 60) -> list[Sent]:
    """Users who come, move and go (tombstones), and their page views among that; no two at one time."""
    numbers = random.Random(seed)
    sent = []
    for number in range(count):
        user = f"user-{numbers.randrange(users)}"
        at = BEGIN_MS + number * 10
        kind = numbers.random()
        if kind < 0.70:
            view = {"page": f"/page/{numbers.randrange(20)}", "seconds": numbers.randrange(100)}
            sent.append(Sent("page-views", user, json.dumps(view), at))
        elif kind < 0.92:
            profile = {"name": user.title(), "region": numbers.choice(_REGIONS)}
            sent.append(Sent("users", user, json.dumps(profile), at))
        else:
            sent.append(Sent("users", user, None, at))
    return sent


def viewed_regions(sent: Sequence[Sent]) -> Counter:
    """Views by the region that their user is in at that moment; those of unknown users do not count."""
    region: dict[str | None, str] = {}
    counts: Counter = collections.Counter()
    for each in sorted(sent, key=lambda each: each.timestamp_ms):
        if each.topic == "users":
            if each.value is None:
                region.pop(each.key, None)
            else:
                region[each.key] = json.loads(each.value)["region"]
        elif each.key in region:
            counts[region[each.key]] += 1
    return counts


def clicks(
    seed: int, begin_ms: int = BEGIN_MS, count: int = 3_000, users: int = 80, minutes: int = 12
) -> list[Sent]:
    """Clicks out of order, by less than the grace."""
    numbers = random.Random(seed)
    sent = []
    for number in range(count):
        user = f"user-{min(numbers.randrange(users), numbers.randrange(users))}"
        now = begin_ms + DISORDER_MS + number * minutes * MINUTE_MS // count
        sent.append(Sent("clicks", user, "/", now - numbers.randrange(DISORDER_MS)))
    return sent


def closing_clicks(after_ms: int) -> list[Sent]:
    """One click in each partition that closes every window before it: Kafka's time is a partition's own."""
    at = after_ms + 2 * MINUTE_MS + GRACE_MS
    return [Sent("clicks", f"closer-{partition}", "/", at, partition) for partition in range(PARTITIONS)]


def busy_minutes(sent: Sequence[Sent]) -> dict[tuple[str, int], int]:
    """Counts of the users and minutes (their begin) with LEAST_CLICKS or more."""
    counts = collections.Counter(
        (each.key or "", each.timestamp_ms // MINUTE_MS * MINUTE_MS) for each in sent
    )
    return {window: count for window, count in counts.items() if count >= LEAST_CLICKS}


def send(bootstrap: str, records: Sequence[Sent]) -> None:
    """Write records where a Java producer would put them."""
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 5})
    failures: list[object] = []
    for record in records:
        place = {} if record.partition is None else {"partition": record.partition}
        producer.produce(
            record.topic,
            record.value,
            record.key,
            timestamp=record.timestamp_ms,
            on_delivery=lambda error, _: failures.append(error) if error else None,
            **place,
        )
    assert producer.flush(30) == 0
    assert not failures, failures[0]


@contextmanager
def java_examples(bootstrap: str, directory: Path) -> Iterator[StreamsProcess]:
    """The Java application for the length of the block; its state is kept in `directory`."""
    directory.mkdir()
    properties: Mapping[str, str] = {
        "application.id": "java-examples",
        "bootstrap.servers": bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": "100",
        "auto.offset.reset": "earliest",
        "state.dir": str(directory / "state"),
    }
    with streams_process(
        "org.codehaus.janino.SimpleCompiler",
        str(PROGRAM),
        "StreamsFidelity",
        str(write_properties(directory / "streams.properties", properties)),
        class_path=os.pathsep.join((streams_classpath(), *janino_jars())),
        flags=(*STREAMS_FLAGS, STATIC_METHODS_OF_INTERFACES),
    ) as process:
        yield process
