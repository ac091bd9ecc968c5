"""What `ottla lag` tells of groups, as JSON objects and as rows of tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from ottla.cli.cluster.group_words import shown_lag
from ottla.cli.frame.table import Column
from ottla.cli.frame.terminal import Style
from ottla.lag.core.verdicts import Status, group_status
from ottla.lag.reading import GroupLag, PartitionLag


class Judged(NamedTuple):
    """A group in a partition, and the verdict on it."""

    lag: PartitionLag
    status: Status


def _shown_seconds(seconds: float) -> str:
    return shown_lag(round(seconds * 1_000))


def _style(status: str) -> str:
    return {Status.OK.name: "", Status.WARN.name: Style.YELLOW}.get(status, Style.RED)


_LAG: Final = Column("lag", "LAG", right=True)
_BEHIND: Final = Column("lag_seconds", "BEHIND", right=True, show=_shown_seconds)
_STATUS: Final = Column("status", "STATUS", style=_style)

PARTITIONS: Final = (
    Column("group", "GROUP"),
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", right=True),
    Column("offset", "OFFSET", right=True),
    Column("end", "END", right=True),
    _LAG,
    _BEHIND,
    Column("position", "POSITION"),
    _STATUS,
    Column("client_id", "CLIENT"),
)
GROUPS: Final = (
    Column("group", "GROUP"),
    Column("type", "TYPE"),
    Column("state", "STATE"),
    Column("partitions", "PARTITIONS", right=True),
    _LAG,
    _BEHIND,
    Column("removed", "REMOVED", right=True),
    Column("unknown", "UNKNOWN", right=True),
    _STATUS,
)


def partition_row(group: GroupLag, one: Judged, read_ms: int) -> dict[str, Any]:
    """A group in a partition. unknown values are null."""
    lag = one.lag
    return {
        "group": group.group.group_id,
        "type": group.group.type.value,
        "state": group.group.state,
        "topic": lag.partition.topic,
        "partition": lag.partition.partition,
        "offset": lag.offset,
        "start": lag.start,
        "end": lag.end,
        "lag": lag.standing.lag,
        "lag_seconds": _seconds(lag.lag_ms),
        "position": lag.standing.position.value,
        "removed": lag.standing.removed,
        "status": one.status.name,
        "member_id": None if lag.member is None else lag.member.member_id,
        "host": None if lag.member is None else lag.member.host,
        "client_id": None if lag.member is None else lag.member.client_id,
        "problem": lag.problem,
        "time": _time(read_ms),
    }


def group_row(group: GroupLag, rows: Sequence[Judged], read_ms: int) -> dict[str, Any]:
    """A group. lag: the sum over its partitions; lag_seconds: the longest; null if none is known."""
    lags = [one.lag.standing.lag for one in rows if one.lag.standing.lag is not None]
    waiting = [one.lag.lag_ms for one in rows if one.lag.lag_ms is not None]
    return {
        "group": group.group.group_id,
        "type": group.group.type.value,
        "state": group.group.state,
        "partitions": len(rows),
        "lag": sum(lags) if lags else None,
        "lag_seconds": _seconds(max(waiting, default=None)),
        "removed": sum(one.lag.standing.removed for one in rows),
        "unknown": sum(one.lag.standing.lag is None for one in rows),
        "status": group_status(one.status for one in rows).name,
        "problem": None if group.problem is None else str(group.problem),
        "time": _time(read_ms),
    }


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1_000


def _time(read_ms: int) -> str:
    moment = datetime.fromtimestamp(read_ms / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
