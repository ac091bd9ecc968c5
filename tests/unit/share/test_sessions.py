"""Share sessions: epochs, partitions, limits, connections."""

from __future__ import annotations

import uuid

import pytest

from ottla.core.share.sessions import MAX_EPOCH, SessionKey, ShareSessions
from ottla.protocol.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)

ANN, BOB = SessionKey("g", "ann"), SessionKey("g", "bob")
P0, P1 = ((uuid.UUID(int=1), index) for index in range(2))


def sessions(max_sessions: int = 2) -> ShareSessions:
    return ShareSessions(max_sessions)


def test_each_request_has_the_next_epoch() -> None:
    all_of_them = sessions()
    session = all_of_them.begin(ANN, [P0], "c", acknowledges=False)
    with pytest.raises(InvalidShareSessionEpoch):
        all_of_them.proceed(ANN, 2, (), ())
    all_of_them.proceed(ANN, 1, (), ())
    all_of_them.acknowledge(ANN, 2)
    with pytest.raises(InvalidShareSessionEpoch):
        all_of_them.acknowledge(ANN, 2)
    session.epoch = MAX_EPOCH
    all_of_them.acknowledge(ANN, MAX_EPOCH)
    assert session.epoch == 1, "0 would begin another session"


def test_partitions_come_and_go() -> None:
    all_of_them = sessions()
    all_of_them.begin(ANN, [P0], "c", acknowledges=False)
    session = all_of_them.proceed(ANN, 1, [P1], ())
    assert list(session.partitions) == [P0, P1]
    session = all_of_them.proceed(ANN, 2, (), [P0])
    assert list(session.partitions) == [P1]


def test_a_response_names_partitions_that_are_new_have_records_or_failed() -> None:
    all_of_them = sessions()
    all_of_them.begin(ANN, [P0], "c", acknowledges=False)
    session = all_of_them.proceed(ANN, 1, [P1], ())
    assert not session.must_name(P0, has_records=False, has_error=False)
    assert session.must_name(P0, has_records=True, has_error=False)
    assert session.must_name(P1, has_records=False, has_error=False), "just added"
    assert not session.must_name(P1, has_records=False, has_error=False)
    assert session.must_name(P0, has_records=False, has_error=True)
    assert session.must_name(P0, has_records=False, has_error=False), "the error is over: that is news"


def test_a_first_request_has_nothing_to_acknowledge() -> None:
    with pytest.raises(InvalidRequest):
        sessions().begin(ANN, [P0], "c", acknowledges=True)
    with pytest.raises(InvalidShareSessionEpoch):
        sessions().acknowledge(ANN, 0)


def test_no_session_beyond_the_limit_but_a_member_may_begin_anew() -> None:
    all_of_them = sessions(max_sessions=1)
    all_of_them.begin(ANN, [P0], "c", acknowledges=False)
    with pytest.raises(ShareSessionLimitReached):
        all_of_them.begin(BOB, [P0], "d", acknowledges=False)
    all_of_them.begin(ANN, [P1], "c", acknowledges=False)
    assert len(all_of_them) == 1


def test_an_ended_session_is_not_found() -> None:
    all_of_them = sessions()
    all_of_them.begin(ANN, [P0], "c", acknowledges=False)
    assert all_of_them.end(ANN) == [P0]
    assert all_of_them.end(ANN) is None
    assert not all_of_them.has_members("g")
    for request in (lambda: all_of_them.proceed(ANN, 1, (), ()), lambda: all_of_them.acknowledge(ANN, -1)):
        with pytest.raises(ShareSessionNotFound):
            request()


def test_a_closed_connection_has_its_own_session_only() -> None:
    all_of_them = sessions()
    all_of_them.begin(ANN, [P0], "old", acknowledges=False)
    again = all_of_them.begin(ANN, [P0], "new", acknowledges=False)
    assert all_of_them.connection_closed("old") is None
    assert all_of_them.connection_closed("new") is again
    assert all_of_them.connection_closed("new") is None
