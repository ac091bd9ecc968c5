"""The commands that plan and carry out: plan, run, add, remove, demote, fix-offline, replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import click

from ottla.balance.core.model import Purpose
from ottla.balance.planning import (
    Planned,
    ReplicaWish,
    TopicPattern,
    Wish,
    WishError,
    planned,
    reason_not_to,
)
from ottla.cli.balance.planning_options import (
    Running,
    choosing_options,
    planning_options,
    rules_and_reading,
    wish_of,
)
from ottla.cli.balance.showing import show_plan, summary
from ottla.cli.cluster.any_broker import CommandError, cluster_client
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import Command
from ottla.cli.frame.confirming import confirm, yes_option
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.options import INT32
from ottla.config.errors import UsageError

THROTTLE_HELP: Final = "The most that each broker sends, and receives, for moves."
DEFAULT_THROTTLE: Final = 50_000_000


def _throttle_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--all", "everything", is_flag=True, help="Show each partition that changes."),
        click.option("--no-throttle", is_flag=True, help="Let moves take all the network that there is."),
        click.option(
            "--throttle",
            type=click.IntRange(1),
            default=DEFAULT_THROTTLE,
            show_default=True,
            metavar="BYTES",
            help=f"{THROTTLE_HELP} A second.",
        ),
    ):
        function = option(function)
    return function


def _running_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--moves-per-broker",
            type=click.IntRange(1),
            default=10,
            show_default=True,
            metavar="N",
            help="Replicas that a broker sends or receives at once.",
        ),
        click.option("--dry-run", is_flag=True, help="Show the plan, change nothing."),
        yes_option,
    ):
        function = option(function)
    return _throttle_options(function)


def _running(given: dict[str, Any]) -> Running:
    return Running(
        given["yes"],
        given["dry_run"],
        None if given["no_throttle"] else given["throttle"],
        given["moves_per_broker"],
        given["everything"],
    )


@click.command(
    "plan",
    cls=Command,
    examples=("ottla balance plan", "ottla balance plan --json", "ottla balance plan --thorough --all"),
)
@choosing_options
@planning_options
@_throttle_options
@asks_cluster
async def plan(session: Session, /, **given: Any) -> None:
    """Show what would move for an even load, with bars before and after; nothing is changed.

    Goals, the most important first: racks; capacity in replicas, disk, network, CPU (hard); then even
    replicas, disk, network, CPU, topics and leaders (soft). --json writes one object.
    """
    rules, reading = rules_and_reading(given)
    wish = wish_of(Purpose.BALANCE, (), given)
    async with cluster_client(session.access) as client:
        found = await planned(client, wish, rules, reading)
    throttle = None if given["no_throttle"] else given["throttle"]
    show_plan(session.output, found, throttle, everything=given["everything"])


@click.command(
    "run",
    cls=Command,
    examples=(
        "ottla balance run --yes",
        "ottla balance run --yes --throttle 20000000 --moves-per-broker 4",
        "ottla balance run --self-heal",
    ),
)
@click.option(
    "--self-heal",
    is_flag=True,
    help="Go on for ever, without a yes: move replicas off failed disks, and brokers dead for --grace.",
)
@click.option(
    "--heal-goals",
    is_flag=True,
    help="With --self-heal: plan an even load where a hard goal is missed twice in a row.",
)
@click.option(
    "--goal-interval",
    type=click.FloatRange(1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How often goals are looked at; after a run they rest twice as long.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a broker may be away before its replicas move.",
)
@choosing_options
@planning_options
@_running_options
@asks_cluster
async def run(session: Session, /, **given: Any) -> int:
    """Plan an even load, and carry the plan out after a yes.

    An execution whose process was killed is finished first, its throttles are removed; there is never more
    than one in a cluster. Ctrl-C ends the moves under way as they were before.
    """
    running = _running(given)
    if given["self_heal"]:
        from ottla.cli.balance.watching import heal

        return await heal(session, given, running)
    return await _carried_out(session, wish_of(Purpose.BALANCE, (), given), given, running)


@click.command("add", cls=Command, examples=("ottla balance add 4", "ottla balance add 4 5 --yes"))
@click.argument("brokers", nargs=-1, required=True, type=INT32, metavar="BROKER…")
@choosing_options
@planning_options
@_running_options
@asks_cluster
async def add(session: Session, /, brokers: tuple[int, ...], **given: Any) -> int:
    """Give new brokers their share; replicas move to them alone."""
    return await _carried_out(session, wish_of(Purpose.ADD, brokers, given), given, _running(given))


@click.command("remove", cls=Command, examples=("ottla balance remove 2", "ottla balance remove 2 --yes"))
@click.argument("brokers", nargs=-1, required=True, type=INT32, metavar="BROKER…")
@choosing_options
@planning_options
@_running_options
@asks_cluster
async def remove(session: Session, /, brokers: tuple[int, ...], **given: Any) -> int:
    """Move everything off brokers that are to go; afterwards they can be stopped."""
    return await _carried_out(session, wish_of(Purpose.REMOVE, brokers, given), given, _running(given))


@click.command("demote", cls=Command, examples=("ottla balance demote 2 --yes",))
@click.argument("brokers", nargs=-1, required=True, type=INT32, metavar="BROKER…")
@planning_options
@_running_options
@asks_cluster
async def demote(session: Session, /, brokers: tuple[int, ...], **given: Any) -> int:
    """Let brokers lead nothing, before work on them say; their replicas stay, and no byte is copied."""
    return await _carried_out(session, Wish(Purpose.DEMOTE, brokers), given, _running(given))


@click.command("fix-offline", cls=Command, examples=("ottla balance fix-offline --yes",))
@choosing_options
@planning_options
@_running_options
@asks_cluster
async def fix_offline(session: Session, /, **given: Any) -> int:
    """Move replicas off dead brokers and failed disks, and out of racks that have too many."""
    return await _carried_out(session, wish_of(Purpose.FIX_OFFLINE, (), given), given, _running(given))


@click.command(
    "replicas",
    cls=Command,
    examples=("ottla balance replicas 'orders.*' 3", "ottla balance replicas clicks 1 --yes"),
)
@click.argument("topics", metavar="REGEX")
@click.argument("factor", type=click.IntRange(1, 32_767), metavar="REPLICAS")
@click.option(
    "--skip-rack-awareness-check", is_flag=True, help="Let several replicas of a partition be in one rack."
)
@choosing_options
@planning_options
@_running_options
@asks_cluster
async def replicas(session: Session, /, topics: str, factor: int, **given: Any) -> int:
    """Give the topics whose whole name matches more replicas, or fewer; those that stay do not move.

    New ones come to racks that have none of the partition yet, and to the brokers that stand lowest. The
    leader keeps its replica.
    """
    try:
        pattern = TopicPattern.of(topics)
    except WishError as problem:
        raise UsageError(str(problem)) from None
    wanted = ReplicaWish(pattern, factor, given["skip_rack_awareness_check"])
    wish = replace(wish_of(Purpose.REPLICAS, (), given), replicas=wanted)
    return await _carried_out(session, wish, given, _running(given))


# -- carrying out ------------------------------------------------------------------------------------------


async def _carried_out(session: Session, wish: Wish, given: dict[str, Any], running: Running) -> int:
    """Plan, show, ask, carry out; the exit code."""
    rules, reading = rules_and_reading(given)
    async with cluster_client(session.access) as client:
        if running.dry_run:
            found = await planned(client, wish, rules, reading)
            show_plan(session.output, found, running.throttle, everything=running.everything)
            return ExitCode.DONE
        from ottla.cli.balance.carrying_out import Carrier

        async with Carrier.to(session, client, running) as carrier:
            await carrier.finish_what_was_begun()
            found = await planned(client, wish, rules, reading)
            if not session.output.is_json:
                show_plan(session.output, found, running.throttle, everything=running.everything)
            _require_sound(found)
            if not found.plan.changes:
                if session.output.is_json:
                    session.output.json({"purpose": wish.purpose.value, "outcome": "done", "changes": 0})
                return ExitCode.DONE
            await asyncio.to_thread(
                confirm, f"carry this out: {summary(found.plan, running.throttle)}", running.yes
            )
            return ExitCode.DONE if await carrier.carry_out(found) else ExitCode.FAILED


def _require_sound(found: Planned) -> None:
    """Raises CommandError for a plan that is not to be carried out."""
    if (reason := reason_not_to(found)) is not None:
        raise CommandError(f"the plan is not carried out: {reason}")
