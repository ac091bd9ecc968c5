"""Metadata of commits come through librdkafka with stray bytes behind them; what ottla reads is right."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.offsets import metadata_of
from ottla.pipeline.query.progress import mark, marked_query
from ottla.pipeline.sink.exactly_once_clients import LEDGER_READERS
from ottla.pipeline.sink.exactly_once_ledger import LedgerEntry, read_ledger
from ottla.pipeline.sink.exactly_once_settings import Identity, SinkError
from support.clients.moody_coordinator import GROUP, TOPIC, moody_coordinator

LENGTHS_OF_A_HEAP_BLOCK = 16


@contextlib.contextmanager
def stirred_heap() -> Iterator[None]:
    """Blocks of many sizes, filled and freed: what is allocated next has their bytes behind its own."""
    blocks = [bytes([0xB7]) * size for size in range(16, 512) for _ in range(20)]
    del blocks
    yield


def entry_of(query_name: str) -> LedgerEntry:
    ids = [str(uuid.uuid4()) for _ in range(2)]
    return LedgerEntry(7, query_name, *ids, Identity.SOURCE, 0, "2")


def test_ledgers_of_any_length_are_read() -> None:
    with moody_coordinator([0]) as coordinator:
        access = ClusterAccess(coordinator.bootstrap)
        try:
            for length in range(1, 2 * LENGTHS_OF_A_HEAP_BLOCK + 1):
                entry = entry_of("q" * length)
                coordinator.metadata = entry.metadata()
                with stirred_heap():
                    assert read_ledger(access, GROUP, TOPIC) == entry
        finally:
            LEDGER_READERS.consumer(access, GROUP).close()
            LEDGER_READERS._consumers.popitem()


def test_the_marks_of_queries_are_read() -> None:
    with moody_coordinator([0]) as coordinator:
        cluster = KafkaCluster(coordinator.bootstrap)
        for query_id in ("*", *(str(uuid.uuid4()) for _ in range(5))):
            coordinator.metadata = mark(query_id)
            with stirred_heap():
                (commit,) = cluster.commits(GROUP, TOPIC).values()
            assert marked_query(commit.metadata) == query_id


@pytest.mark.parametrize("stray", ["", "q", "@", " ", "}", "\x17\x7f", "1", "{", "\N{REPLACEMENT CHARACTER}"])
def test_stray_characters_behind_a_ledger_are_passed_over(stray: str) -> None:
    entry = entry_of("copy")
    assert LedgerEntry.parse(GROUP, 7, entry.metadata() + stray) == entry
    with pytest.raises(SinkError, match="not this sink's"):
        LedgerEntry.parse(GROUP, 7, entry.metadata()[:-1])


class _Commit:
    """A commit with these bytes where the Python client looks for metadata."""

    def __init__(self, found: bytes | None) -> None:
        self._found = found

    @property
    def metadata(self) -> str | None:
        return None if self._found is None else self._found.decode()


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, ""),
        (b"", ""),
        ("é".encode(), "é"),
        (b"{}\xb7\xff!", "{}\ufffd\ufffd!"),
        (b"{}\xc3", "{}\ufffd"),
    ],
)
def test_stray_bytes_that_are_no_text_are_kept_apart(found: bytes | None, text: str) -> None:
    commit: Any = _Commit(found)
    assert metadata_of(cast(TopicPartition, commit)) == text
