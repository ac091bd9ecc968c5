"""Plans and sizes as JSON, as `--json` writes them."""

from __future__ import annotations

from typing import Any, Final

from ottla.balance.core.model import Dimension, Load
from ottla.balance.core.plan import seconds_of
from ottla.balance.core.rightsizing import Rightsizing
from ottla.balance.planning import Planned

NAMES: Final = {
    Dimension.REPLICAS: "replicas",
    Dimension.LEADERS: "leaders",
    Dimension.DISK: "disk_bytes",
    Dimension.NW_IN: "in_bytes_per_second",
    Dimension.NW_OUT: "out_bytes_per_second",
    Dimension.POTENTIAL_OUT: "potential_out_bytes_per_second",
    Dimension.LEADER_IN: "leader_in_bytes_per_second",
    Dimension.CPU: "cpu_percent",
}


def load_body(load: Load) -> dict[str, float]:
    """A broker's load."""
    return {
        name: round(load[dimension])
        if dimension in (Dimension.REPLICAS, Dimension.LEADERS, Dimension.DISK)
        else round(load[dimension], 3)
        for dimension, name in NAMES.items()
    }


def plan_body(planned: Planned, throttle: int | None) -> dict[str, Any]:
    """A plan. throttle: bytes per second by which its time is estimated; null without one."""
    plan = planned.plan
    return {
        "purpose": planned.wish.purpose.value,
        "hard_goals_hold": plan.hard_goals_hold,
        "replica_moves": plan.replica_moves,
        "leader_changes": plan.leader_changes,
        "bytes_moved": plan.bytes_moved,
        "bytes_bound": plan.bytes_bound,
        "estimated_seconds": None if throttle is None else seconds_of(plan.changes, throttle),
        "goals": [
            {
                "goal": one.goal.title,
                "hard": one.goal.hard,
                "missed_before": one.before,
                "missed_after": one.after,
            }
            for one in plan.goals
        ],
        "brokers": [
            {
                "broker": one.id,
                "rack": one.rack,
                "state": one.state.value,
                "before": load_body(plan.before[one.id]),
                "after": load_body(plan.after[one.id]),
            }
            for one in planned.model.brokers
        ],
        "changes": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "before": list(one.before),
                "after": list(one.after),
                "leader": one.leader,
                "bytes": one.bytes_moved,
            }
            for one in plan.changes
        ],
        "problems": [*plan.problems, *planned.problems],
    }


def size_body(found: Rightsizing) -> dict[str, Any]:
    """What size a cluster should have. needed: null where no size that was tried would do."""
    return {
        "status": found.provision.value,
        "brokers": found.brokers,
        "needed": found.needed,
        "reasons": dict(found.reasons),
    }
