"""What is written can be read, and what anybody may have written is refused with a reason."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from ottla.audit.core.delta import (
    Bucket,
    CaughtUp,
    Delta,
    Mode,
    StreamCounts,
    caught_up_value,
    delta_value,
    parse_counts_record,
)
from ottla.client.audit.ledger import Ledger, Reporter
from ottla.client.audit.mark import MARK_BYTES, MOST_SEQUENCES, StreamBucket, mark, parse_mark
from ottla.client.audit.reports import MalformedReport, Report, parse_report, report_key, report_value

OF = StreamBucket(uuid.UUID(int=7), 3, 1_700_000_400_000)
REPORT = Report("app", "h1", "c", "orders", OF, 600_000, 12, 4, 1_700_000_500_000, True)


def fields(**changed: Any) -> bytes:
    return json.dumps({**json.loads(report_value(REPORT)), **changed}).encode()


def test_a_mark_and_a_report_come_back() -> None:
    assert len(mark(OF, 5)) == MARK_BYTES
    assert parse_mark(mark(OF, 5)) == (OF, 5)
    assert parse_report(report_value(REPORT)) == REPORT
    assert parse_report(fields(later="field")) == REPORT
    assert report_key(REPORT) == f"{uuid.UUID(int=7)}/3/1700000400000".encode()
    assert parse_report(None) is None


@pytest.mark.parametrize("value", [None, b"", b"x" * MARK_BYTES, mark(OF, MOST_SEQUENCES), mark(OF, 1)[:-1]])
def test_other_values_are_no_marks(value: bytes | None) -> None:
    assert parse_mark(value) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xff", "not JSON"),
        (b"[" * 20_000, "longer than"),
        (b"[" * 10_000, "not JSON"),
        (b"[]", "a JSON object"),
        (fields(v=2), "newer than 1"),
        (fields(v="1"), "v is '1'"),
        (fields(sent=-1), "sent is -1"),
        (fields(sent=True), "sent is True"),
        (fields(sent=MOST_SEQUENCES + 1), "sent is"),
        (fields(bucket_ms=1_500), "whole seconds"),
        (fields(bucket_ms=0), "bucket_ms is 0"),
        (fields(topic=""), "topic is ''"),
        (fields(host="h" * 256), "host is"),
        (fields(tier=None), "tier is None"),
        (fields(instance="x"), "not a UUID"),
        (fields(instance=5), "not a UUID"),
    ],
)
def test_a_report_that_cannot_be_is_refused(value: bytes, reason: str) -> None:
    with pytest.raises(MalformedReport, match=reason):
        parse_report(value)


def delta() -> Delta:
    found = Delta("app", "orders", 1, 10, 90, Mode.RECORDS, 600_000, 1_700_000_400_005, 5)
    found.streams[OF] = StreamCounts(late=2)
    found.streams[OF].counts.add([0, 1, 1, 9_000])
    found.buckets[600_000] = Bucket(3, 1, 0)
    found.holes.append((0, 600_000, 4))
    return found


def test_a_delta_comes_back() -> None:
    found = parse_counts_record(delta_value(delta()))
    assert isinstance(found, Delta)
    counts = found.streams[OF].counts
    assert (counts.times(1), counts.times(9_000), counts.occurrences()) == (2, 1, 4)
    assert (found.start, found.stop, found.buckets, found.holes) == (
        10,
        90,
        delta().buckets,
        [(0, 600_000, 4)],
    )
    assert parse_counts_record(caught_up_value(CaughtUp("app", 9))) == CaughtUp("app", 9)


def changed(**changes: Any) -> bytes:
    return json.dumps({**json.loads(delta_value(delta())), **changes}).encode()


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b"7",
        changed(v=2),
        changed(start=91),
        changed(mode="guess"),
        changed(mode=[]),
        changed(streams=5),
        changed(streams=[[str(OF.instance), 1, 600_000, 0]]),
        changed(streams=[[str(OF.instance), 1, 600_000, 0, [[0, "!!"]]]]),
        changed(streams=[[str(OF.instance), 1, 600_000, 0, [[0, "eJw="]]]]),
        changed(streams=[[str(OF.instance), 1, 600_000, 0, [[1 << 40, ""]]]]),
        changed(buckets=[[1, -1, 0, 0]]),
        changed(buckets={"a": 1}),
        changed(holes=[[0, 1]]),
        changed(tier=""),
        changed(partition=-1),
    ],
)
def test_a_delta_that_cannot_be_is_refused(value: bytes) -> None:
    with pytest.raises(MalformedReport):
        parse_counts_record(value)


def sent(ledger: Ledger, count: int = 1, timestamp_ms: int = 1_000) -> None:
    for _ in range(count):
        with ledger.lock:
            ledger.sending("orders", timestamp_ms)


def told(ledger: Ledger) -> list[int]:
    reports = ledger.reports(0)
    ledger.told(reports)
    return [one.sent for one in reports]


def test_a_ledger_tells_what_is_new() -> None:
    ledger = Ledger(Reporter("app", "h", bucket_ms=1_000), uuid.UUID(int=1))
    sent(ledger, 3)
    assert told(ledger) == [3]
    assert told(ledger) == []
    sent(ledger, 1, 2_500)
    with ledger.lock:
        slot, _ = ledger.sending("orders", 2_600)
        ledger.refused(slot)
    assert told(ledger) == [1]
    assert [(one.sent, one.is_final) for one in ledger.reports(0, final=True)] == [(3, True), (1, True)]


def test_what_a_transaction_sent_counts_when_it_is_committed() -> None:
    ledger = Ledger(Reporter("app", "h"), uuid.UUID(int=1))
    ledger.begin_transaction()
    sent(ledger, 5)
    assert told(ledger) == []
    ledger.end_transaction(committed=False)
    ledger.begin_transaction()
    sent(ledger, 2)
    ledger.end_transaction(committed=True)
    assert told(ledger) == [2]
