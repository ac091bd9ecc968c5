"""`ottla balance rightsize`: how many brokers a load needs."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from ottla.balance.core.rightsizing import Provision
from ottla.balance.core.rightsizing import rightsize as rightsize_model
from ottla.balance.json_shape import size_body
from ottla.balance.reading import read_cluster
from ottla.cli.balance.planning_options import planning_options, rules_and_reading
from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import Command


@click.command(
    "rightsize",
    cls=Command,
    examples=("ottla balance rightsize", "ottla balance rightsize --growth 2 --spare 1 --json"),
)
@click.option(
    "--growth",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="TIMES",
    help="The load to plan for, in times of today's.",
)
@click.option(
    "--spare",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Brokers that may fail at once.",
)
@planning_options
@asks_cluster
async def rightsize(session: Session, /, growth: float, spare: int, **given: Any) -> None:
    """Tell how many brokers a load needs, so that all hard goals hold; nothing is changed."""
    rules, options = rules_and_reading(given)
    async with cluster_client(session.access) as client:
        reading = await read_cluster(client, options)
    found = await asyncio.to_thread(rightsize_model, reading.model, rules, growth, spare)
    body = size_body(found)
    if not session.output.for_people:
        session.output.facts(body, name="needed")
        return
    needed = "more brokers than were tried are" if found.needed is None else f"{found.needed} brokers are"
    words = {Provision.UNDER: "too few", Provision.RIGHT: "right", Provision.OVER: "more than it takes"}
    session.output.say(f"{needed} needed; {found.brokers} are there: {words[found.provision]}")
    for reason, count in found.reasons.items():
        session.output.say(f"  {reason}: at least {count}")
