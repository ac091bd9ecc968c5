"""Shows a plan: brokers with bars before and after, goals, moves; or all of it as one JSON object."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from ottla.balance.core.model import Broker, BrokerState, Dimension, Load
from ottla.balance.core.plan import Plan, seconds_of
from ottla.balance.json_shape import plan_body
from ottla.balance.planning import Planned
from ottla.cli.frame.output import Output
from ottla.cli.frame.table import Column
from ottla.doctor.units import bytes_text, duration_text

BAR_WIDTH: Final = 12
SHOWN_CHANGES: Final = 20
"""Of a plan for people; --json has them all."""


def show_plan(output: Output, planned: Planned, throttle: int | None, *, everything: bool) -> None:
    """Write the plan. throttle: bytes per second by which its time is estimated."""
    if output.is_json:
        output.json(plan_body(planned, throttle))
        return
    plan = planned.plan
    if output.is_quiet:
        for one in plan.changes:
            output.line(f"{one.topic}-{one.partition}")
        return
    output.listing(_broker_rows(planned), _broker_columns(), name="broker")
    output.say("")
    goals = [
        {
            "goal": one.goal.title,
            "kind": "hard" if one.goal.hard else "soft",
            "before": one.before,
            "after": one.after,
        }
        for one in plan.goals
        if one.before or one.after
    ]
    if goals:
        columns = [
            Column("goal", "goal missed by"),
            Column("kind"),
            Column("before", right=True),
            Column("after", right=True),
        ]
        output.listing(goals, columns, name="goal")
        output.say("")
    _show_changes(output, plan, everything=everything)
    output.say(summary(plan, throttle))
    if any(not one.holds and not one.goal.hard for one in plan.goals):
        output.note("soft goals are left; --thorough moves more bytes for them")
    for problem in (*plan.problems, *planned.problems):
        output.warn(problem)


def summary(plan: Plan, throttle: int | None) -> str:
    """One sentence: what moves, how much, how long."""
    if not plan.changes:
        return "nothing has to move"
    took = ""
    if throttle is not None and plan.bytes_moved:
        took = f", about {duration_text(seconds_of(plan.changes, throttle))} at {bytes_text(throttle)}/s"
    dropped = f"{plan.replicas_dropped} replicas go, " if plan.replicas_dropped else ""
    return (
        f"{plan.replica_moves} replicas move ({bytes_text(plan.bytes_moved)}{took}), {dropped}"
        f"{plan.leader_changes} leaders change"
    )


def _show_changes(output: Output, plan: Plan, *, everything: bool) -> None:
    shown = plan.changes if everything else plan.changes[:SHOWN_CHANGES]
    rows = [
        {
            "partition": f"{one.topic}-{one.partition}",
            "before": list(one.before),
            "after": list(one.after),
            "bytes": bytes_text(one.bytes_moved),
        }
        for one in shown
    ]
    if rows:
        columns = [Column("partition"), Column("before"), Column("after"), Column("bytes", right=True)]
        output.listing(rows, columns, name="partition")
        if len(shown) < len(plan.changes):
            output.say(f"… and {len(plan.changes) - len(shown)} more; --all shows them")
        output.say("")


def _broker_columns() -> list[Column]:
    return [
        Column("broker", right=True),
        Column("rack"),
        Column("state"),
        Column("replicas", right=True),
        Column("leaders", right=True),
        Column("disk_before", "disk before"),
        Column("disk_after", "disk after"),
        Column("in", "in after", right=True),
        Column("out", "out after", right=True),
    ]


def _broker_rows(planned: Planned) -> list[dict[str, Any]]:
    plan = planned.plan
    fullest = max(
        (load[Dimension.DISK] for loads in (plan.before, plan.after) for load in loads.values()), default=0.0
    )
    return [_broker_row(one, plan.before, plan.after, fullest) for one in planned.model.brokers]


def _broker_row(
    broker: Broker, before: Mapping[int, Load], after: Mapping[int, Load], fullest: float
) -> dict[str, Any]:
    was, will = before[broker.id], after[broker.id]
    return {
        "broker": broker.id,
        "rack": broker.rack,
        "state": None if broker.state is BrokerState.ALIVE else broker.state.value,
        "replicas": _change(was[Dimension.REPLICAS], will[Dimension.REPLICAS]),
        "leaders": _change(was[Dimension.LEADERS], will[Dimension.LEADERS]),
        "disk_before": _bar(was[Dimension.DISK], fullest),
        "disk_after": _bar(will[Dimension.DISK], fullest),
        "in": f"{bytes_text(will[Dimension.NW_IN])}/s",
        "out": f"{bytes_text(will[Dimension.NW_OUT])}/s",
    }


def _change(before: float, after: float) -> str:
    return f"{before:.0f}" if round(before) == round(after) else f"{before:.0f} > {after:.0f}"


def _bar(value: float, most: float) -> str:
    """A bar as long as the value, the fullest broker's is whole, and the value."""
    filled = round(BAR_WIDTH * value / most) if most > 0 else 0
    full, empty = ("█", "░") if _has_blocks() else ("#", ".")
    return f"{full * filled}{empty * (BAR_WIDTH - filled)} {bytes_text(value)}"


def _has_blocks() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
