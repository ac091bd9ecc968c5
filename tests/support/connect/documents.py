"""What every document store must do as sink and source, whichever system it is."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Hashable
from itertools import count

import pytest

from ottla.connect.connectors.common import Superseded
from ottla.connect.connectors.documents.sink import DocumentSink
from ottla.connect.connectors.documents.source import DocumentSource
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.data.schema import Schema, Type
from ottla.connect.plugins.api import RecordError
from ottla.connect.testing import (
    Target,
    check_growing_source,
    check_sink,
    check_source,
    drawn_records,
    read_records,
    settings_of,
    write_records,
)

PLACE = TopicPartition("t", 0)
_numbers = count()


def sink(url: str, **texts: str) -> DocumentSink:
    """A sink at a URL; settings with _ for the dots."""
    given = {name.replace("_", "."): text for name, text in texts.items()}
    return DocumentSink(settings_of(DocumentSink, {"store.url": url, **given}))


def source(url: str, collection: str, **texts: str) -> DocumentSource:
    """A source at a URL."""
    given = {"store.url": url, "collection": collection, "topic": "read", **texts}
    return DocumentSource(settings_of(DocumentSource, given))


def contents(url: str, *collections: str) -> dict[tuple[str, str], object]:
    """The documents of some collections by collection and id."""
    found: dict[tuple[str, str], object] = {}
    for collection in collections:
        for each in read_records(source(url, collection), {"collection": collection}):
            found[collection, str(each.record.key)] = each.record.value
    return found


def records(*values: object, key: str = "k", first: int = 0) -> list[SinkRecord]:
    """Records of one partition and one key."""
    return [
        SinkRecord(Record("t", 0, key, Schema(Type.STRING), value), PLACE, offset)
        for offset, value in enumerate(values, first)
    ]


def check_kills(new_url: Callable[[], str], *, exactly_once: bool, seed: int, count: int = 150) -> None:
    """The documents are the last ones of their keys, whatever is killed."""
    drawn = drawn_records(random.Random(seed), count, topics=("one.a-b", "two"))
    # Partitions are read in no order between each other: a key belongs to one partition, as in Kafka.
    drawn = [
        SinkRecord(
            Record(
                each.record.topic,
                each.record.partition,
                f"{each.record.key}/{each.place.partition}",
                each.record.key_schema,
                each.record.value,
                each.record.value_schema,
            ),
            each.place,
            each.offset,
        )
        for each in drawn
    ]

    def new_target() -> Target:
        url = new_url()
        name = f"check-{next(_numbers)}"

        def content() -> list[Hashable]:
            found = contents(url, f"{name}.one.a-b", f"{name}.two")
            return [
                (collection.removeprefix(name), id, json.dumps(fields, sort_keys=True))
                for (collection, id), fields in found.items()
            ]

        return Target(lambda: sink(url, name=name, collection=name + ".${topic}"), content)

    expected = check_sink(new_target, drawn, exactly_once=exactly_once, seed=seed, runs=3)
    last = {(each.place.topic, each.record.key): each.record.value for each in drawn}
    assert len(expected) == sum(value is not None for value in last.values())


def check_ledger(url: str) -> None:
    """Offsets belong to a connector and its generation; a task that was superseded is told."""
    first = sink(url, name="ledger")
    assert first.open([PLACE]) == {}
    first.write(records({"n": 1}, {"n": 2}))
    second = sink(url, name="ledger")
    assert second.open([PLACE, TopicPartition("t", 1)]) == {PLACE: 2}
    second.write(records({"n": 3}, first=2))
    with pytest.raises(Superseded, match="t-0: another task has written up to 3"):
        first.write(records({"n": "old"}, first=2))
    assert contents(url, "t") == {("t", "k"): {"n": 3}}
    assert sink(url, name="another").open([PLACE]) == {}
    assert sink(url, name="ledger", ottla_generation="1").open([PLACE]) == {}
    first.close()
    second.close()


def check_refusals(url: str, *bad: object) -> None:
    """Records that make no document are refused, and those around them are written."""
    bad_records = [
        *records("text", [1], {"n": float("nan")}, {"n": "\ud800"}, *bad, first=1),
        SinkRecord(Record("t", 0, None, None, {"n": 1}), PLACE, 30),
    ]
    written = [*records({"n": 1}, key="a"), *bad_records, *records({"n": 2}, key="b", first=31)]
    refused = write_records(sink(url, name="refusals", collection="refusals"), written)
    assert refused == bad_records
    assert contents(url, "refusals") == {("refusals", "a"): {"n": 1}, ("refusals", "b"): {"n": 2}}


def check_ids(url: str) -> None:
    """Ids come of the key, or of a field; tombstones delete, or are refused."""
    by_field = sink(url, name="ids", collection="ids", id_field="n")
    by_field.write(records({"n": 5, "x": 1}, {"n": "a"}, {"n": 5, "x": 2}))
    with pytest.raises(RecordError, match="no field 'n'"):
        by_field.write(records({"x": 1}, first=3))
    by_field.write(records(None, key="a", first=4))
    assert contents(url, "ids") == {("ids", "5"): {"n": 5, "x": 2}}
    keeping = sink(url, name="keeping", collection="ids", delete_on_null_values="false")
    with pytest.raises(RecordError, match=r"delete\.on\.null\.values is false"):
        keeping.write(records(None, key="5"))


def check_reading(url: str, seed: int) -> None:
    """The source goes on at each document, and gives each change of a collection that grows."""
    chance = random.Random(seed)
    writer = sink(url, name="reading", collection="reading")
    offset = 0

    def write(number: int) -> None:
        nonlocal offset
        writer.write(
            records({"number": number, "word": 'ü\\ "'}, key=f"k{chance.randrange(30)}", first=offset)
        )
        offset += 1

    assert read_records(source(url, "reading"), {}) == []
    for number in range(40):
        write(number)
    check_source(lambda: source(url, "reading", **{"batch.size": "7"}), seed=seed, restarts=20)

    collection = source(url, "reading", **{"batch.size": "3"})
    start = read_records(collection, {})[-1].source_offset
    turns = [30]

    def grow() -> bool:
        turns[0] -= 1
        write(100 + turns[0])
        return turns[0] > 0

    grown = check_growing_source(lambda: source(url, "reading", **{"batch.size": "3"}), grow, seed=seed)
    final = {each.record.key: each.record.value for each in read_records(source(url, "reading"), {})}
    assert {each.record.key: each.record.value for each in grown} == final
    assert len(read_records(source(url, "reading"), {}, start)) <= 30
