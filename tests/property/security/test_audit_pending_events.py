"""Whatever comes, and whenever it is written: each event is in a record or a count, and memory is bounded."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.core.audit.pending_events import PendingEvents
from ottla.security.audit_chain import (
    ADMINISTRATION,
    AUTHENTICATION,
    AUTHORIZATION,
    EVENTS_LOST,
    AuditEvent,
    TimedEvent,
)

QUEUED, KINDS = 5, 4
NAMES = st.integers(0, 12).map(str)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("refusal"), NAMES, NAMES),
        st.tuples(st.just("login"), NAMES, NAMES),
        st.tuples(st.just("change"), NAMES, NAMES),
        st.tuples(st.just("time"), st.integers(-3_000, 3_000)),
        st.tuples(st.just("write"), st.integers(1, 4)),
        st.tuples(st.just("write"), st.integers(1, 4)),
    ),
    max_size=80,
)


@given(STEPS)
def test_every_event_is_told(steps: list[tuple[str, ...]]) -> None:
    pending = PendingEvents(QUEUED, KINDS)
    now_ms = 10_000
    given: Counter[str] = Counter()
    written: list[TimedEvent] = []
    for step, *words in steps:
        match step:
            case "refusal":
                given[AUTHORIZATION] += 1
                pending.count(AuditEvent(AUTHORIZATION, principal=words[0], resource_name=words[1]), now_ms)
            case "login":
                given[AUTHENTICATION] += 1
                pending.count(AuditEvent(AUTHENTICATION, principal=words[0], host=words[1]), now_ms)
            case "change":
                given[ADMINISTRATION] += 1
                pending.add(AuditEvent(ADMINISTRATION, resource_name=words[0]), now_ms)
            case "time":
                now_ms += int(words[0])
                pending.end_windows(now_ms)
            case "write":
                taken = pending.first(int(words[0]))
                written += taken
                pending.drop(len(taken))
        assert len(pending) <= QUEUED
        assert pending.untold == given.total() - sum(each.count for each in written)
        assert len(pending._windows) <= KINDS
        assert len(pending._coarse) <= KINDS + 3  # one for each event without any word of a client
    while pending.counting or len(pending):
        pending.end_windows(now_ms, all_of_them=True)
        written += pending.first(QUEUED)
        pending.drop(len(pending))
    told: Counter[str] = Counter()
    for each in written:
        told[each.event.event] += each.count
        assert (each.until_ms is None) == (each.count == 1) or each.count == 1
    lost = told.pop(EVENTS_LOST, 0)
    assert told[ADMINISTRATION] + lost == given[ADMINISTRATION]
    assert (told[AUTHORIZATION], told[AUTHENTICATION]) == (given[AUTHORIZATION], given[AUTHENTICATION])
    changes = [each.event.resource_name for each in written if each.event.event == ADMINISTRATION]
    came = [step[1] for step in steps if step[0] == "change"]
    left = iter(came)
    assert all(any(name == each for each in left) for name in changes)  # in their order


def test_a_flood_of_one_kind_is_a_record_a_second() -> None:
    pending = PendingEvents()
    event = AuditEvent(AUTHORIZATION, principal="User:alice", resource_name="orders")
    for now_ms in range(10_000):
        pending.count(event, now_ms)
        pending.end_windows(now_ms)
    assert [each.count for each in pending.first(99)] == [1, *[1_000] * 9]


def test_a_change_waits_until_it_is_taken() -> None:
    pending = PendingEvents()
    assert pending.add(AuditEvent(ADMINISTRATION), 0)
    first = pending.last_ticket
    assert pending.add(AuditEvent(ADMINISTRATION), 0)
    pending.drop(1)
    assert pending.is_taken(first)
    assert not pending.is_taken(pending.last_ticket)
