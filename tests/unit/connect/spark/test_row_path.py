"""The row path: what may come right is attempted again as errors.retry.* say, then a record has failed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from ottla.connect.host.settings import ErrorSettings, Tolerance
from ottla.connect.spark import rows, source_rows
from ottla.connect.spark.rows import FAILED, RowSettings
from support.connect.fake_plugins import CATALOG

TEXT = "test.TextConverter"
AWAY_TIMES = 2
#: 300 and 600 ms, as Connect pauses.
NEEDED_MS = 900


def settings(timeout_ms: int, delay_max_ms: int = 60_000) -> RowSettings:
    config = {"key.converter": TEXT, "value.converter": "test.AwayConverter"}
    config |= {"value.converter.away.times": str(AWAY_TIMES), "header.converter": TEXT}
    return RowSettings(
        config, {}, ErrorSettings(Tolerance.NONE, timeout_ms, delay_max_ms, False, False, "", 1, False)
    )


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made; the clock goes on by them alone."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(made))
    for module in (rows, source_rows):
        monkeypatch.setattr(module, "installed_plugins", lambda: CATALOG)
    return made


def consumed(texts: list[str]) -> pa.RecordBatch:
    at = datetime.fromtimestamp(0, UTC)
    failure = pa.struct([(name, pa.string()) for name in ("node", "stage", "exception", "message", "trace")])
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            (FAILED, failure),
        ]
    )
    given = [
        {"topic": "t", "partition": 0, "offset": place, "timestamp": at, "key": b"k", "value": text.encode()}
        for place, text in enumerate(texts)
    ]
    return pa.RecordBatch.from_pylist(given, schema=schema)


def read(texts: list[str]) -> pa.RecordBatch:
    def written(text: str) -> bytes:
        return json.dumps({"schema": {"type": "string", "optional": False}, "payload": text}).encode()

    return pa.RecordBatch.from_pylist([{"topic": "t", "key": None, "value": written(each)} for each in texts])


Path = Callable[[RowSettings, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
BOTH = pytest.mark.parametrize(
    ("path", "made"),
    [(rows.convert_batches, consumed), (source_rows.produce_batches, read)],
    ids=["sink", "source"],
)


def through(path: Path, batch: pa.RecordBatch, given: RowSettings) -> list[dict[str, Any]]:
    return [row for each in path(given, iter([batch])) for row in each.to_pylist()]


@BOTH
def test_a_record_is_attempted_again_with_connects_pauses(
    path: Path, made: Callable[[list[str]], pa.RecordBatch], pauses: list[float]
) -> None:
    found = through(path, made(["one", "two"]), settings(NEEDED_MS + 1))
    assert [each[FAILED] for each in found] == [None, None]
    assert all(text in each["value"] for each, text in zip(found, (b"one", b"two"), strict=True))
    assert pauses == [0.3, 0.6] * 2


@BOTH
def test_the_longest_pause_is_that_of_the_settings(
    path: Path, made: Callable[[list[str]], pa.RecordBatch], pauses: list[float]
) -> None:
    (found,) = through(path, made(["one"]), settings(-1, delay_max_ms=10))
    assert found[FAILED] is None
    assert len(pauses) == AWAY_TIMES and max(pauses) < 0.01


@BOTH
@pytest.mark.parametrize("timeout_ms", [0, 250, 299])
def test_a_record_has_failed_when_the_time_is_over_and_the_next_ones_go_on(
    path: Path,
    made: Callable[[list[str]], pa.RecordBatch],
    pauses: list[float],
    timeout_ms: int,
) -> None:
    one, poison = through(path, made(["one", "poison"]), settings(timeout_ms))
    assert one[FAILED]["stage"] == "VALUE_CONVERTER"
    assert one[FAILED]["exception"] == "org.apache.kafka.connect.errors.RetriableException"
    assert "the registry is away" in one[FAILED]["message"]
    assert poison[FAILED] is not None
    assert sum(pauses) * 1000 == pytest.approx(2 * timeout_ms)


@BOTH
def test_what_never_comes_right_is_attempted_once(
    path: Path, made: Callable[[list[str]], pa.RecordBatch], pauses: list[float]
) -> None:
    given = settings(-1)
    refusing = dict(given.config) | {"value.converter.away.times": "0"}
    (found,) = through(path, made(["poison"]), RowSettings(refusing, {}, given.errors))
    assert (found[FAILED]["exception"], pauses) == ("org.apache.kafka.connect.errors.DataException", [])
