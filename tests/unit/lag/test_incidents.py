"""When incidents are told."""

from __future__ import annotations

from itertools import count

from ottla.lag.core.incidents import Incidents, Notice, NoticeKind, NoticeRules
from ottla.lag.core.tracker import GroupVerdict
from ottla.lag.core.verdicts import Status

WARN, ERR, OK = (GroupVerdict("g", status, 1.0, ()) for status in (Status.WARN, Status.ERR, Status.OK))


def incidents(rules: NoticeRules) -> Incidents:
    numbers = count(1)
    return Incidents(rules, lambda: f"incident {next(numbers)}")


def told(notice: Notice | None) -> tuple[NoticeKind, str, Status] | None:
    return None if notice is None else (notice.kind, notice.incident, notice.status)


def test_an_incident_is_told_from_its_beginning_to_its_end() -> None:
    made = incidents(NoticeRules(interval_ms=60_000))
    assert told(made.judged(WARN, 0)) == (NoticeKind.OPEN, "incident 1", Status.WARN)
    assert made.judged(ERR, 59_999) is None
    again = made.judged(ERR, 60_000)
    assert told(again) == (NoticeKind.OPEN, "incident 1", Status.ERR)
    assert again is not None and again.started_ms == 0
    assert told(made.judged(OK, 70_000)) == (NoticeKind.CLOSE, "incident 1", Status.OK)
    assert made.judged(OK, 80_000) is None and len(made) == 0
    assert told(made.judged(WARN, 90_000)) == (NoticeKind.OPEN, "incident 2", Status.WARN)


def test_a_status_below_the_threshold_is_not_told_nor_is_its_end() -> None:
    made = incidents(NoticeRules(threshold=Status.ERR))
    assert made.judged(WARN, 0) is None
    assert made.judged(OK, 1) is None
    assert made.judged(WARN, 2) is None
    reached = made.judged(ERR, 3)
    assert told(reached) == (NoticeKind.OPEN, "incident 2", Status.ERR)
    assert reached is not None and reached.started_ms == 2
    assert told(made.judged(OK, 4)) == (NoticeKind.CLOSE, "incident 2", Status.OK)


def test_once_is_once_and_ends_need_not_be_told() -> None:
    made = incidents(NoticeRules(once=True, closes=False))
    assert made.judged(ERR, 0) is not None
    assert made.judged(ERR, 10**9) is None
    assert made.judged(OK, 10**9 + 1) is None


def test_a_group_that_is_gone_ends_its_incident() -> None:
    made = incidents(NoticeRules())
    made.judged(ERR, 0)
    assert made.gone_but(["g"], 1) == []
    (notice,) = made.gone_but(["other"], 2)
    assert told(notice) == (NoticeKind.CLOSE, "incident 1", Status.NOTFOUND)
    assert notice.verdict is None
