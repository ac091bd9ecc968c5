"""The offsets of connectors on a real cluster: listed, altered, reset; texts as Connect's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.connect.host.messages import Role
from ottla.connect.offsets.connector_offsets import (
    ALTERED,
    RESET,
    BadOffsets,
    ConnectorOffset,
    OffsetsFailed,
    OffsetsOwner,
)
from ottla.connect.offsets.sink_offsets import SinkOffsets
from ottla.connect.offsets.source_offsets import SourceOffsets
from support.clients.confluent import consumer, create_topic, poll_messages, produce
from support.connect import runs
from support.connect.runs import OFFSETS_TOPIC, Host

SOURCE, SINK = SourceOffsets(), SinkOffsets()


def _owner(bootstrap: str, name: str, worker: Mapping[str, str] | None = None) -> OffsetsOwner:
    order = runs.start(bootstrap, name, Role.SOURCE_TASK, {}, worker=worker)
    return OffsetsOwner(name, order.config, order.worker)


@pytest.mark.parametrize("support", ["disabled", "enabled"])
def test_a_sources_offsets_are_altered_and_reset(bootstrap: str, host: Host, name: str, support: str) -> None:
    create_topic(bootstrap, name)
    worker = {"exactly.once.source.support": support}
    owner = _owner(bootstrap, name, worker)
    assert asyncio.run(SOURCE.committed(owner)) == []
    assert asyncio.run(SOURCE.reset(owner)) == RESET
    config = {"connector.class": "NumbersSource", "topic": name, "ends": "true", "count": "10"}
    parts = [{"part": 0}, {"part": 1}]
    order = runs.start(bootstrap, name, Role.SOURCE_TASK, config, worker=worker, partitions=parts)
    assert host.finish(order) is None
    ten = [ConnectorOffset({"part": part}, {"next": 10}) for part in (0, 1)]
    assert asyncio.run(SOURCE.committed(owner)) == ten
    changes = [ConnectorOffset({"part": 0}, {"next": 7}), ConnectorOffset({"part": 1}, None)]
    assert asyncio.run(SOURCE.alter(owner, changes)) == ALTERED
    assert asyncio.run(SOURCE.committed(owner)) == [ConnectorOffset({"part": 0}, {"next": 7})]
    assert asyncio.run(SOURCE.reset(owner)) == RESET
    assert asyncio.run(SOURCE.committed(owner)) == []


def test_offsets_of_java_connect_under_other_bytes_are_found_and_reset(bootstrap: str, name: str) -> None:
    key = json.dumps([name, {"z": 1, "a": "ü"}])  # with spaces: no spelling of ours
    # where Java's producer writes them, whose keys with the same bytes share a partition
    produce(bootstrap, OFFSETS_TOPIC, [{"key": key, "value": '{"at": 5}'}], partitioner="murmur2_random")
    # other connectors' records, and such as are none
    produce(bootstrap, OFFSETS_TOPIC, [{"key": "no json", "value": "{}"}, {"key": '["x"]', "value": "{}"}])
    owner = _owner(bootstrap, name)
    partition = {"z": 1, "a": "ü"}
    assert asyncio.run(SOURCE.committed(owner)) == [ConnectorOffset(partition, {"at": 5})]
    asyncio.run(SOURCE.alter(owner, [ConnectorOffset({"a": "ü", "z": 1}, {"at": 6})]))
    assert asyncio.run(SOURCE.committed(owner)) == [ConnectorOffset(partition, {"at": 6})]
    asyncio.run(SOURCE.reset(owner))
    assert asyncio.run(SOURCE.committed(owner)) == []


def test_source_offsets_that_cannot_be_stored_are_refused(bootstrap: str, name: str) -> None:
    owner = _owner(bootstrap, name)
    for offset, words in (
        ({"at": [1]}, "Offsets may only contain primitive types as values, but field at contains ARRAY"),
        ({"at": {}}, "Offsets may only contain primitive types as values, but field at contains MAP"),
    ):
        with pytest.raises(OffsetsFailed, match=words):
            asyncio.run(SOURCE.alter(owner, [ConnectorOffset({"part": 0}, offset)]))
    with pytest.raises(BadOffsets, match="cannot be null or missing"):
        asyncio.run(SOURCE.alter(owner, [ConnectorOffset(None, {"at": 1})]))


def test_a_standalone_workers_file_is_altered(bootstrap: str, name: str, tmp_path: Path) -> None:
    worker = {"offset.storage.topic": "", "offset.storage.file.filename": str(tmp_path / "offsets")}
    owner = _owner(bootstrap, name, worker)
    rows = [ConnectorOffset({"part": 0}, {"at": 1}), ConnectorOffset({"part": 1}, {"at": 2})]
    assert asyncio.run(SOURCE.alter(owner, rows)) == ALTERED
    assert asyncio.run(SOURCE.committed(owner)) == rows
    assert asyncio.run(SOURCE.reset(owner)) == RESET
    assert asyncio.run(SOURCE.committed(owner)) == []


def test_a_sinks_offsets_are_those_of_its_group(bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name, 2)
    owner = _owner(bootstrap, name)
    assert asyncio.run(SINK.committed(owner)) == []
    assert asyncio.run(SINK.reset(owner)) == RESET  # a group that is not there

    def place(partition: object, offset: object) -> ConnectorOffset:
        given = None if offset is None else {"kafka_offset": offset}
        return ConnectorOffset({"kafka_topic": name, "kafka_partition": partition}, given)

    assert asyncio.run(SINK.alter(owner, [place("0", "12"), place(1, 7)])) == ALTERED
    assert asyncio.run(SINK.committed(owner)) == [place(0, 12), place(1, 7)]
    assert asyncio.run(SINK.alter(owner, [place(0, None), place(1, 8)])) == ALTERED
    assert asyncio.run(SINK.committed(owner)) == [place(1, 8)]
    assert asyncio.run(SINK.reset(owner)) == RESET
    assert asyncio.run(SINK.committed(owner)) == []


def test_a_group_with_members_keeps_its_offsets(bootstrap: str, name: str) -> None:
    create_topic(bootstrap, name)
    produce(bootstrap, name, [{"value": "1"}])
    owner = _owner(bootstrap, name)
    with consumer(bootstrap, f"connect-{name}") as member:
        member.subscribe([name])
        poll_messages(member, 1)
        member.commit(asynchronous=False)
        place = {"kafka_topic": name, "kafka_partition": 0}
        for change in (ConnectorOffset(place, {"kafka_offset": 0}), ConnectorOffset(place, None)):
            with pytest.raises(
                OffsetsFailed, match=r"Failed to alter .* its tasks haven't stopped completely"
            ):
                asyncio.run(SINK.alter(owner, [change]))
        with pytest.raises(OffsetsFailed, match=r"Failed to reset .* its tasks haven't stopped completely"):
            asyncio.run(SINK.reset(owner))
        assert asyncio.run(SINK.committed(owner)) == [ConnectorOffset(place, {"kafka_offset": 1})]


def test_a_cluster_that_is_away_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.connect.offsets.sink_offsets.TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr("ottla.connect.host.offset_store.READ_SECONDS", 0.3)
    owner = _owner("127.0.0.1:1", name)
    with pytest.raises(OffsetsFailed, match=f"Failed to retrieve offsets for source connector {name}"):
        asyncio.run(SOURCE.committed(owner))
    with pytest.raises(OffsetsFailed, match=f"Failed to retrieve consumer group offsets for .* {name}"):
        asyncio.run(SINK.committed(owner))
