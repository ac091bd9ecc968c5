"""Lines between a worker and its hosts: every message comes back as it was, and nothing else is taken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.host import codec
from ottla.connect.host.codec import CodecError, decode_event, decode_order, encode
from ottla.connect.host.messages import (
    Ended,
    Event,
    Figures,
    Order,
    Partitions,
    Pause,
    Paused,
    Resume,
    Role,
    Run,
    Running,
    Start,
    Stop,
    Topics,
)

TEXTS = st.text()  # half a surrogate pair too, as in names of files
RUNS = st.builds(Run, TEXTS, st.integers(-1, 2**31), st.integers(0, 2**63))
JSON = st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers() | TEXTS | st.floats(allow_nan=False))
TABLES = st.dictionaries(TEXTS, TEXTS)
STARTS = st.builds(
    Start,
    RUNS,
    st.sampled_from(Role),
    TABLES,
    TABLES,
    st.lists(JSON),
    st.lists(st.tuples(JSON, JSON)),
    st.integers(0, 2**31),
    st.booleans(),
)
ORDERS = STARTS | st.builds(Stop, RUNS) | st.builds(Pause, RUNS) | st.builds(Resume, RUNS)
EVENTS = (
    st.builds(Running, RUNS)
    | st.builds(Paused, RUNS)
    | st.builds(Ended, RUNS, st.none() | TEXTS)
    | st.builds(Partitions, RUNS, st.lists(JSON))
    | st.builds(Topics, RUNS, st.lists(TEXTS))
    | st.builds(Figures, RUNS, st.dictionaries(TEXTS, st.floats(allow_nan=False)))
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(("type", "run", "offsets", "x")), inner),
)


@given(ORDERS)
def test_orders_come_back(order: Order) -> None:
    line = encode(order)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert decode_order(line) == order


@given(EVENTS)
def test_events_come_back(event: Event) -> None:
    line = encode(event)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert decode_event(line) == event


@given(st.binary() | ANY_JSON.map(lambda value: json.dumps(value).encode()))
def test_any_other_line_is_refused_with_one_error(line: bytes) -> None:
    for decode in (decode_order, decode_event):
        with pytest.raises(CodecError):
            decode(line)


@given(
    STARTS, st.sampled_from(("run", "role", "config", "worker", "partitions", "offsets", "fence", "paused"))
)
def test_an_order_with_a_wrong_field_is_refused(order: Start, field: str) -> None:
    fields = json.loads(encode(order))
    fields[field] = [3.5]
    with pytest.raises(CodecError):
        decode_order(json.dumps(fields).encode())


def test_lines_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_LINE_BYTES", 200)
    run = Run("c", 0, 1)
    with pytest.raises(CodecError, match="longer than 200"):
        encode(Topics(run, ["t" * 200]))
    with pytest.raises(CodecError, match="longer than 200"):
        decode_order(encode(Stop(run)) + b" " * 200)
    with pytest.raises(CodecError):
        decode_order(b"[" * 190)


def test_a_trace_is_cut() -> None:
    ended = decode_event(encode(Ended(Run("c", 0, 1), "x" * 1_000_000)))
    assert isinstance(ended, Ended) and ended.trace == "x" * codec.MAX_TRACE_CHARACTERS
