"""Run a stateful operator without Spark, batch by batch, on its host's state: pages in a dictionary."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from ottla.streams.host import keyed_state
from ottla.streams.host.keyed_processor import BucketContext, KeyedProcessor
from ottla.streams.host.keyed_state import BucketState, all_records
from ottla.streams.operators.operator import Event, KeyedOperator, Output


class DictionaryStorage:
    """Pages as bytes in memory."""

    def __init__(self) -> None:
        self.pages: dict[bytes, bytes] = {}

    def read(self, ids: Sequence[bytes]) -> list[bytes]:
        return [self.pages.get(each, b"") if each == b"m" else self.pages[each] for each in ids]

    def write(self, pages: Sequence[tuple[bytes, bytes]]) -> None:
        self.pages.update(pages)

    def remove(self, ids: Sequence[bytes]) -> None:
        for each in ids:
            del self.pages[each]


@dataclass
class OperatorRun:
    """One operator and its state. Values must be plain JSON, as the events go the way of the host's."""

    operator: KeyedOperator
    storage: DictionaryStorage = field(default_factory=DictionaryStorage)
    cache: keyed_state._Cache = field(default_factory=keyed_state._Cache)
    late: int = 0
    dropped: int = 0

    def batch(
        self, events: Iterable[Event], watermark_ms: int = -1, processing_time_ms: int = 0
    ) -> list[Output]:
        """The operator's outputs for these events, which are in their order."""
        groups: dict[str, tuple[int, list[list[Any]]]] = {}
        for event in events:
            text = orjson.dumps({"k": event.key}).decode()
            _, records = groups.setdefault(text, (key_hash(text), []))
            record = orjson.dumps({"v": event.value, "h": None}).decode()
            records.append([event.input, event.timestamp_ms, record, 0])
        processor = KeyedProcessor("test", self.operator, None, [None] * 3, _same, _same, None)
        state = BucketState(self.storage, self.cache)
        context = BucketContext(state, self.operator, watermark_ms, processing_time_ms)
        outputs = list(processor._outputs(groups, state, context))
        state.flush()
        self.late += context.late
        self.dropped += context.dropped
        return outputs

    @property
    def remembered(self) -> dict[str, Any]:
        """All keys with state."""
        return dict(all_records(self.storage))


def key_hash(text: str) -> int:
    return zlib.crc32(text.encode()) << 20


def applied(outputs: Iterable[Output]) -> dict[str, Any]:
    """The table that these changes make: JSON of the key -> value."""
    table: dict[str, Any] = {}
    for output in outputs:
        key = orjson.dumps(output.key).decode()
        if output.value is None:
            table.pop(key, None)
        else:
            table[key] = output.value
    return table


def _same(value: Any) -> Any:
    return value
