"""Shapes of clusters for particular faults, for which random shapes would need many seeds."""

from __future__ import annotations

import dataclasses

from simulation.cluster import Shape
from simulation.node import QUORUM, Settings

ONE_BATCH_A_FETCH = dataclasses.replace(QUORUM, fetch_max_bytes=1, snapshot_fetch_max_bytes=300)

SAME_TIME = dataclasses.replace(
    QUORUM, election_timeout_ms=300, fetch_timeout_ms=400, election_backoff_max_ms=50, request_timeout_ms=300
)

ELECTIONS = Shape(
    controllers=(1, 2, 3),
    brokers=(4, 5),
    dynamic_voters=True,
    settings=Settings(quorum=ONE_BATCH_A_FETCH, records_between_snapshots=1000, session_timeout_ms=600),
    partition_count=1,
    replication_factor=2,
    skewed_clocks=False,
    through_bytes=False,
    late_voters=0,
    chaos_ms=5000,
    fault_count=60,
    faults=(
        "blink",
        "kill a voter",
        "lose power",
        "kill the controller",
        "cut one way",
        "partition",
        "slow disk",
        "topic",
    ),
)
"""A quorum with many elections, on disks that lose unsynced data."""

VOTES = dataclasses.replace(
    ELECTIONS,
    controllers=(1, 2, 3),
    brokers=(4,),
    replication_factor=1,
    settings=dataclasses.replace(ELECTIONS.settings, quorum=SAME_TIME),
    chaos_ms=10_000,
    fault_count=120,
    faults=("kill a voter", "kill a voter", "kill the controller", "slow link", "slow link", "cut one way"),
)
"""Voters that stand at nearly the same time, over slow links, and are killed after their vote."""

HISTORIES = dataclasses.replace(
    VOTES,
    settings=dataclasses.replace(
        VOTES.settings, quorum=dataclasses.replace(SAME_TIME, fetch_max_bytes=1, fetch_max_wait_ms=100)
    ),
    faults=("write", "write", "write", "partition", "blink", "kill the controller", "slow link", "slow disk"),
)
"""Leaders whose writes do not reach the others, one batch a fetch, and that return."""

REPLICAS = Shape(
    controllers=(1,),
    brokers=(2, 3, 4),
    dynamic_voters=False,
    settings=Settings(min_insync_replicas=2, session_timeout_ms=800, fetch_bytes=300),
    partition_count=1,
    replication_factor=3,
    skewed_clocks=False,
    through_bytes=False,
    late_voters=0,
    chaos_ms=6000,
    fault_count=40,
    faults=("kill", "partition", "pause", "bad network", "slow link", "move leader"),
)
"""Brokers that lead and follow in turn, over a slow network."""

LEADERS = dataclasses.replace(
    REPLICAS,
    fault_count=60,
    settings=dataclasses.replace(REPLICAS.settings, session_timeout_ms=2000),
    faults=("bounce leader", "bounce leader", "slow link", "slow link", "pause"),
)
"""Leaders that change faster than some brokers learn of it."""

TAILS = dataclasses.replace(
    REPLICAS,
    replication_factor=2,
    fault_count=60,
    faults=("kill", "lose power", "lose power", "slow link", "stop"),
)
"""Brokers that lose their unsynced tails, followed by the other brokers."""

SHAPES = {
    "elections": ELECTIONS,
    "votes": VOTES,
    "histories": HISTORIES,
    "replicas": REPLICAS,
    "leaders": LEADERS,
    "tails": TAILS,
}
"""The shapes by their names on the command line."""
