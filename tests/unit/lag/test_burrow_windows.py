"""Drawn histories of ends and commits, judged as Burrow judges them.

`burrow_windows.json` has what Burrow itself (its storage and its evaluator, of 2025) made of each history:
the window that it kept, and its verdict. Times are relative to a moment in the history.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from ottla.lag.core.verdicts import Status, partition_status
from ottla.lag.core.windows import CommitWindow, EndWindow

CASES: Final[list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("burrow_windows.json").read_text("utf-8")
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["expected"]["status"])
def test_the_window_and_the_verdict_are_burrows(case: dict[str, Any]) -> None:
    commits, ends = CommitWindow(case["intervals"]), EndWindow(case["intervals"])
    found = False
    for kind, *step in case["steps"]:
        if kind == "end":
            ends.add(step[0])
        else:
            offset, order, timestamp_ms = step
            found = True
            commits.add(offset, order, timestamp_ms, 0, ends.newest, case["min_distance_ms"])
    expected = case["expected"]
    if expected["status"] == Status.NOTFOUND.name:
        assert not found
        return
    window = commits.commits
    assert [[one.offset, one.order, one.timestamp_ms, one.lag] for one in window] == expected["window"]
    assert commits.complete == pytest.approx(expected["complete"], abs=1e-6)
    assert ends.ends == expected["ends"]
    assert ends.newest is not None
    lag = max(0, ends.newest - window[-1].offset)
    assert lag == expected["lag"]
    status = partition_status(window, ends.ends, lag, case["now_ms"], case["allowed_lag"])
    assert status.name == expected["status"]


def test_all_verdicts_are_among_them() -> None:
    assert {case["expected"]["status"] for case in CASES} == {one.name for one in Status} - {"ERR"}
