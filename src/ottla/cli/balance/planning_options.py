"""The options of all commands that plan: how the cluster is read, and by which rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from ottla.balance.capacities import read_capacities
from ottla.balance.core.model import Purpose, Rules
from ottla.balance.core.scope import GoalError, goals_named
from ottla.balance.planning import TopicPattern, Wish, WishError
from ottla.balance.reading import ReadOptions
from ottla.cli.frame.options import Decorated
from ottla.config.errors import UsageError


class Running(NamedTuple):
    """How a plan is carried out, by the options of the commands that do it."""

    yes: bool
    dry_run: bool
    throttle: int | None
    moves_per_broker: int
    everything: bool


def planning_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; `rules_and_reading` takes their values."""
    options: tuple[Decorated, ...] = (
        click.option(
            "--interval",
            type=click.FloatRange(0.1, 600),
            default=5.0,
            show_default=True,
            metavar="SECONDS",
            help="How long rates are watched.",
        ),
        click.option(
            "--metrics-url",
            metavar="URL",
            help="Where brokers have their metrics (Kafka's: a JMX exporter), with {host} and {id} in it.",
        ),
        click.option(
            "--capacity",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="What brokers can take, in Cruise Control's capacity.json. [default: their disks' sizes]",
        ),
        click.option(
            "--thorough",
            is_flag=True,
            help="Move as many bytes as soft goals want. [default: a tenth more than must be moved]",
        ),
        click.option(
            "--min-leaders",
            multiple=True,
            metavar="TOPIC=N",
            help="Each broker leads at least N partitions of the topic; may be repeated.",
        ),
        click.option(
            "--max-replicas",
            type=click.IntRange(1),
            default=10_000,
            show_default=True,
            metavar="N",
            help="The most replicas on a broker.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def choosing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what a plan may do; `wish_of` takes their values."""
    options: tuple[Decorated, ...] = (
        click.option(
            "--goals",
            metavar="GOAL,…",
            help="Work for these goals alone, by their names in docs/balance.md; with all hard ones.",
        ),
        click.option(
            "--skip-hard-goal-check", is_flag=True, help="Let --goals leave hard goals out, as they are."
        ),
        click.option(
            "--excluded-topics",
            metavar="REGEX",
            help="Topics that stay where they are, but for dead and removed brokers.",
        ),
        click.option(
            "--destination-broker-ids",
            metavar="BROKER,…",
            help="The only brokers that get replicas and leaders. [default: all]",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def wish_of(purpose: Purpose, brokers: tuple[int, ...], given: Mapping[str, Any]) -> Wish:
    """What the options want. Raises UsageError."""
    try:
        goals = goals_named(
            filter(None, (given["goals"] or "").split(",")),
            skip_hard_goal_check=given["skip_hard_goal_check"],
        )
    except GoalError as problem:
        raise UsageError(f"--goals: {problem} (--skip-hard-goal-check)") from None
    pattern = given["excluded_topics"]
    try:
        excluded = None if pattern is None else TopicPattern.of(pattern)
    except WishError as problem:
        raise UsageError(f"--excluded-topics: {problem}") from None
    return Wish(purpose, brokers, goals, excluded, _ids(given["destination_broker_ids"]))


def _ids(text: str | None) -> tuple[int, ...]:
    words = [] if text is None else [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and len(word) <= 10 for word in words):
        raise UsageError(f"--destination-broker-ids {text}: write ids of brokers with commas between")
    return tuple(dict.fromkeys(map(int, words)))


def rules_and_reading(given: Mapping[str, Any]) -> tuple[Rules, ReadOptions]:
    """What the options say. Raises UsageError, CapacityError."""
    rules = Rules(max_replicas=given["max_replicas"], min_leaders=_min_leaders(given["min_leaders"]))
    if given["thorough"]:
        rules = replace(rules, extra=None)
    capacity = given["capacity"]
    capacities = {} if capacity is None else read_capacities(capacity)
    return rules, ReadOptions(given["interval"], capacities, given["metrics_url"])


def _min_leaders(words: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for word in words:
        topic, equals, number = word.rpartition("=")
        if not equals or not topic or not number.isdecimal():
            raise UsageError(f"--min-leaders {word}: write TOPIC=N")
        found[topic] = int(number)
    return found
