"""Verdicts as JSON, in the shape of Burrow's HTTP API (version 3), with a few fields of ottla's own.

Ottla's own are `position`, `removed` and `lag_seconds` of a partition; `lag_seconds` of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.lag.core.tracker import GroupVerdict, PartitionVerdict
from ottla.lag.core.verdicts import Status
from ottla.lag.core.windows import Commit


def commit_body(commit: Commit) -> dict[str, Any]:
    """A commit of a window. lag: null where it is not known."""
    return {
        "offset": commit.offset,
        "timestamp": commit.timestamp_ms,
        "observedAt": commit.observed_ms,
        "lag": commit.lag,
    }


def partition_body(one: PartitionVerdict) -> dict[str, Any]:
    """A group in a partition. start, end: the first and the last commit of the window, null for none."""
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "owner": one.owner,
        "client_id": one.client_id,
        "status": one.status.name,
        "start": None if one.first is None else commit_body(one.first),
        "end": None if one.last is None else commit_body(one.last),
        "current_lag": one.lag,
        "complete": one.complete,
        "position": one.standing.position.value,
        "removed": one.standing.removed,
        "lag_seconds": _seconds(one.lag_ms),
    }


def group_body(cluster: str, group: str, verdict: GroupVerdict | None, *, everything: bool) -> dict[str, Any]:
    """A group's status. verdict: None for one that is not known. everything: its well partitions too."""
    if verdict is None:
        return _group(cluster, group, Status.NOTFOUND, 1.0, [], 0, None, 0, None)
    worst = verdict.max_lag
    waiting = [one.lag_ms for one in verdict.partitions if one.lag_ms is not None]
    return _group(
        cluster,
        group,
        verdict.status,
        verdict.complete,
        [partition_body(one) for one in verdict.partitions if everything or one.status > Status.OK],
        len(verdict.partitions),
        None if worst is None else partition_body(worst),
        verdict.total_lag,
        _seconds(max(waiting, default=None)),
    )


def _group(
    cluster: str,
    group: str,
    status: Status,
    complete: float,
    partitions: Sequence[dict[str, Any]],
    count: int,
    max_lag: dict[str, Any] | None,
    total_lag: int,
    lag_seconds: float | None,
) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "group": group,
        "status": status.name,
        "complete": complete,
        "partitions": list(partitions),
        "partition_count": count,
        "maxlag": max_lag,
        "totallag": total_lag,
        "lag_seconds": lag_seconds,
    }


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1_000
