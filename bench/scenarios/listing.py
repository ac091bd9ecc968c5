"""The commands that look at a large cluster whole: `ottla topic list`, `ottla group list`, `ottla doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.ottla_commands import median_seconds, run_ottla
from bench.scenarios.scenario import Scenario, Turn
from bench.servers import Server

NARROW_TOPICS, NARROW_PARTITIONS = 8_000, 4
WIDE_TOPICS, WIDE_PARTITIONS = 1_000, 7
GROUPS = 2_200
TOPICS_A_COMMAND = 2_000
TIMES = 5
DOCTOR_CODES = (0, 3, 4)
"""Of a look that came to its end, whatever it found."""
MEASURED = {
    "topic_list_seconds": ("topic", "list"),
    "topic_sizes_seconds": ("topic", "list", "--sizes"),
    "topic_min_isr_seconds": ("topic", "list", "--under-min-isr"),
    "topic_overrides_seconds": ("topic", "list", "--overrides"),
    "group_list_seconds": ("group", "list"),
}


def _listing(turn: Turn) -> dict[str, float]:
    with turn.server() as server:
        narrow, wide = turn.size(NARROW_TOPICS), turn.size(WIDE_TOPICS)
        _create(server, [f"narrow-{number}" for number in range(narrow)], NARROW_PARTITIONS)
        _create(server, [f"wide-{number}" for number in range(wide)], WIDE_PARTITIONS)
        groups = turn.size(GROUPS)
        asyncio.run(_commit(server, [f"group-{number}" for number in range(groups)]))
        listed = len(run_ottla(server, "topic", "list", "-q", "--exclude-internal").splitlines())
        if listed != narrow + wide:
            raise BenchError(f"{listed} topics are listed, not {narrow + wide}")
        listed = len(run_ottla(server, "group", "list", "-q").splitlines())
        if listed != groups:
            raise BenchError(f"{listed} groups are listed, not {groups}")
        figures = {name: median_seconds(server, TIMES, *words) for name, words in MEASURED.items()}
        return {
            **figures,
            "doctor_seconds": median_seconds(server, TIMES, "doctor", "--json", codes=DOCTOR_CODES),
        }


def _create(server: Server, names: Sequence[str], partitions: int) -> None:
    for start in range(0, len(names), TOPICS_A_COMMAND):
        page = names[start : start + TOPICS_A_COMMAND]
        shape = ("--partitions", str(partitions), "--replication-factor", "1")
        run_ottla(server, "topic", "create", "-q", *shape, *page)


async def _commit(server: Server, groups: Sequence[str]) -> None:
    """Make groups without members, each with one offset."""
    from ottla.client.access import ClusterAccess
    from ottla.client.cluster_requests import ClusterRequests, CoordinatorType, error_codes
    from ottla.protocol.messages.offset_commit_request import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )
    from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse

    requests = ClusterRequests(ClusterAccess(server.bootstrap))
    try:
        for group in groups:
            partition = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=0, committed_metadata=""
            )
            request = OffsetCommitRequest(
                group_id=group, topics=[OffsetCommitRequestTopic(name="narrow-0", partitions=[partition])]
            )
            kind = CoordinatorType.GROUP
            answer = await requests.ask_coordinator(kind, group, request, OffsetCommitResponse)
            if error_codes(answer) != {0}:
                raise BenchError(f"group {group} can't commit: {answer}")
    finally:
        await requests.close()


AT_MOST_3_SECONDS = Target(Bound.VALUE_AT_MOST, 3.0)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "listing",
        f"{NARROW_TOPICS + WIDE_TOPICS:,} topics with "
        f"{NARROW_TOPICS * NARROW_PARTITIONS + WIDE_TOPICS * WIDE_PARTITIONS:,} partitions and {GROUPS:,} "
        "groups with one committed offset each, on one broker; the same commands of ottla on either side, "
        f"each from its start to its end, the median of {TIMES}.",
        (
            Measure("topic_list_seconds", "ottla topic list", "s", AT_MOST_3_SECONDS),
            Measure("topic_sizes_seconds", "ottla topic list --sizes", "s", AT_MOST_3_SECONDS),
            Measure("topic_min_isr_seconds", "ottla topic list --under-min-isr", "s", AT_MOST_3_SECONDS),
            Measure("topic_overrides_seconds", "ottla topic list --overrides", "s", AT_MOST_3_SECONDS),
            Measure("group_list_seconds", "ottla group list", "s", AT_MOST_3_SECONDS),
            Measure("doctor_seconds", "ottla doctor", "s", Target(Bound.VALUE_AT_MOST, 10.0)),
        ),
        _listing,
    ),
)
