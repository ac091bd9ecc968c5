"""`ottla lag`: how far groups are behind, in records and in time, once or again and again."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click
from click.core import ParameterSource

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.group_describing import no_such_group
from ottla.cli.cluster.lag_rows import GROUPS, PARTITIONS, Judged, group_row, partition_row
from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import LazyGroup
from ottla.cli.frame.completing import complete_groups, complete_topics
from ottla.cli.frame.entries import Entry
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.options import positive_number
from ottla.client.admin.names import choose
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.groups.listing import list_groups
from ottla.client.groups.model import GroupType, ListedGroup
from ottla.config.errors import UsageError
from ottla.lag.core.thresholds import Thresholds
from ottla.lag.core.verdicts import Status, group_status
from ottla.lag.reading import GroupLag, Lags, Wanted, read_lags
from ottla.lag.watching import Watching

TYPES: Final = tuple(one.value for one in GroupType if one is not GroupType.UNKNOWN)
READ_COMMITTED: Final = "read_committed"
ISOLATIONS: Final = ("read_uncommitted", READ_COMMITTED)
FAILING: Final = {"warn": Status.WARN, "error": Status.ERR}
COUNT: Final = click.IntRange(0)


@click.group(
    "lag",
    cls=LazyGroup,
    entries={"serve": Entry("ottla.cli.servers.lag:serve", "watch groups, and tell over HTTP how they are")},
    invoke_without_command=True,
    examples=(
        "ottla lag",
        "ottla lag --group 'orders-*' --summary",
        "ottla lag --group billing --topic payments --watch 5",
        "ottla lag --warn-seconds 60 --error-seconds 600 --fail-on warn",
        "ottla lag --json",
        "ottla lag serve --bootstrap 127.0.0.1:9092 --listen 127.0.0.1:8000",
    ),
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_groups,
    help="Only this group, or those of a pattern as in a shell; may be repeated.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_topics,
    help="Only this topic, or those of a pattern; may be repeated.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(TYPES, case_sensitive=False),
    help="Only groups of this type; may be repeated.",
)
@click.option("--behind", is_flag=True, help="Only partitions in which groups are behind, or lost records.")
@click.option("--summary", is_flag=True, help="One line a group.")
@click.option(
    "--isolation",
    type=click.Choice(ISOLATIONS),
    default=ISOLATIONS[0],
    show_default=True,
    help="The end of the log: the high watermark, or the last stable offset.",
)
@click.option("--no-times", is_flag=True, help="Leave out the lag in time, for which records are read.")
@click.option("--watch", metavar="SECONDS", type=positive_number, help="Read again and again, so often.")
@click.option("--count", type=click.IntRange(1), help="End after so many readings of --watch.")
@click.option("--warn-lag", type=COUNT, metavar="RECORDS", help="WARN for a partition with a larger lag.")
@click.option("--error-lag", type=COUNT, metavar="RECORDS", help="ERR for a partition with a larger lag.")
@click.option(
    "--warn-seconds", type=positive_number, metavar="SECONDS", help="WARN for an older next record."
)
@click.option(
    "--error-seconds", type=positive_number, metavar="SECONDS", help="ERR for an older next record."
)
@click.option(
    "--fail-on",
    type=click.Choice(tuple(FAILING)),
    help=f"End with exit code {ExitCode.FOUND.value} if a group is WARN or ERR; error: ERR only.",
)
@asks_cluster
def lag(
    session: Session,
    groups: Sequence[str],
    topics: Sequence[str],
    types: Sequence[str],
    behind: bool,
    summary: bool,
    isolation: str,
    no_times: bool,
    watch: float | None,
    count: int | None,
    warn_lag: int | None,
    error_lag: int | None,
    warn_seconds: float | None,
    error_seconds: float | None,
    fail_on: str | None,
) -> Coroutine[Any, Any, int] | int:
    """Tell how far groups of all types are behind, in records and in time.

    LAG counts offsets between the group's and the log's end, and is 0 where no record is left to read.
    BEHIND is how long the next record has waited: the age of its timestamp. POSITION tells the rest: removed
    (retention took records that the group had not read; LAG counts from the log's start), beyond_end (the log
    was cut), not_committed, unknown.

    STATUS is by the bounds of --warn-lag and the like; with --watch also by Burrow's rules, once a group has
    committed, or has not for a minute: WARN (falls behind), STOP (commits no more), REWIND (went back).

    With --json each line is a group in a partition, or with --summary a group.
    """
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        _require_no_options(context)
        return ExitCode.DONE
    thresholds = Thresholds(warn_lag, error_lag, _milliseconds(warn_seconds), _milliseconds(error_seconds))
    _require_sense(watch, count, thresholds, fail_on)
    choice = _Choice(groups, topics, tuple(GroupType(one) for one in types), behind, summary)
    readings = _Readings(watch, 1 if watch is None else count, isolation == READ_COMMITTED, not no_times)
    return _run(session, choice, readings, thresholds, None if fail_on is None else FAILING[fail_on])


class _Choice(NamedTuple):
    """What to show. groups, topics: names and patterns; none: all."""

    groups: Sequence[str]
    topics: Sequence[str]
    types: Sequence[GroupType]
    behind: bool
    summary: bool


class _Readings(NamedTuple):
    """How to read. times: how often, None for ever."""

    pause_seconds: float | None
    times: int | None
    committed: bool
    records: bool


async def _run(
    session: Session,
    choice: _Choice,
    readings: _Readings,
    thresholds: Thresholds,
    failing: Status | None,
) -> int:
    """Read, judge and tell, once or again and again; the exit code."""
    outcomes = Outcomes(session.output)
    watching = None if readings.pause_seconds is None else Watching()
    worst, number = Status.OK, 0
    async with cluster_client(session.access) as client:
        while True:
            with _uncollected():
                lags = await read_lags(
                    client,
                    await _chosen(client, choice, outcomes),
                    topics=_wanted(choice.topics),
                    committed=readings.committed,
                    records=readings.records,
                )
            judged = _judged(lags, thresholds, watching)
            if number:
                session.output.say("")
            _tell(session, lags, judged, choice, outcomes)
            sys.stdout.flush()  # the reader of a pipe waits for each reading
            worst = group_status(one.status for of_group in judged.values() for one in of_group)
            number += 1
            if number == readings.times or readings.pause_seconds is None:
                break
            await asyncio.sleep(readings.pause_seconds)
    if outcomes.exit_code:
        return outcomes.exit_code
    return ExitCode.FOUND if failing is not None and worst >= failing else ExitCode.DONE


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """No collection of garbage meanwhile: all that a reading makes is kept, and is walked through in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _require_no_options(context: click.Context) -> None:
    """Raises UsageError for options before `serve`, which has its own."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{parameter.opts[0]} is not of `{context.command_path} {context.invoked_subcommand}`; "
                "its options stand behind it"
            )


def _require_sense(
    watch: float | None, count: int | None, thresholds: Thresholds, fail_on: str | None
) -> None:
    """Raises UsageError for options that say nothing together."""
    if count is not None and watch is None:
        raise UsageError("--count is of --watch: give both")
    if fail_on is None:
        return
    if watch is not None and count is None:
        raise UsageError("--watch goes on for ever: give --count too, so that --fail-on can end it")
    if watch is None and not thresholds.are_given:
        raise UsageError(
            "one reading is judged by bounds alone: give --warn-lag, --error-lag, --warn-seconds or "
            "--error-seconds with --fail-on, or --watch and --count"
        )


async def _chosen(client: ClusterRequests, choice: _Choice, outcomes: Outcomes) -> list[ListedGroup]:
    """The groups that the options mean; names that are not there are told."""
    words = choice.groups
    listed = await list_groups(client, types=choice.types)
    known = {one.group_id: one for one in listed}
    # a name is that of a group even if it looks like a pattern
    exact = [word for word in words if word in known]
    others = [word for word in words if word not in known]
    if not words:
        return listed
    found = choose(others, known) if others else None
    for name in () if found is None else found.missing:
        outcomes.failed(no_such_group(name, {one.group_id: one.type for one in listed}))
    names = {*exact, *(() if found is None else found.found)}
    return [one for one in listed if one.group_id in names]


def _wanted(words: Sequence[str]) -> Wanted:
    """Whether a topic's name is one that the words mean."""
    if not words:
        return lambda _: True
    known: dict[str, bool] = {}

    def wanted(name: str) -> bool:
        if name not in known:
            known[name] = bool(choose(words, [name]).found)
        return known[name]

    return wanted


def _judged(lags: Lags, thresholds: Thresholds, watching: Watching | None) -> Mapping[str, Sequence[Judged]]:
    """The verdict on each group in each partition: the worse of the thresholds' and Burrow's."""
    verdicts = {} if watching is None else watching.judge(lags)
    judged = {}
    for group in lags.groups:
        rows = []
        for one in group.partitions:
            verdict = verdicts.get((group.group.group_id, one.partition))
            by_bounds = thresholds.status(one.standing, one.lag_ms)
            rows.append(Judged(one, by_bounds if verdict is None else max(by_bounds, verdict.status)))
        judged[group.group.group_id] = rows
    return judged


def _tell(
    session: Session,
    lags: Lags,
    judged: Mapping[str, Sequence[Judged]],
    choice: _Choice,
    outcomes: Outcomes,
) -> None:
    output = session.output
    rows: list[dict[str, Any]] = []
    for group in lags.groups:
        of_group = judged[group.group.group_id]
        shown = [one for one in of_group if not choice.behind or _is_behind(one)]
        if choice.behind and not shown:
            continue
        if choice.summary or output.is_quiet:
            rows.append(group_row(group, of_group, lags.read_ms))
        else:
            rows += [partition_row(group, one, lags.read_ms) for one in shown]
    output.listing(
        rows,
        GROUPS if choice.summary else PARTITIONS,
        name="group",
        empty="no group is behind" if choice.behind else "there is no group with offsets or members",
    )
    for problem in _problems(lags.groups):
        outcomes.failed(problem)


def _is_behind(one: Judged) -> bool:
    where = one.lag.standing
    return where.lag != 0 or bool(where.removed) or one.status > Status.OK


def _problems(groups: Sequence[GroupLag]) -> list[str]:
    """What could not be read, each once: a group's offsets, a partition's end."""
    found = [str(one.problem) for one in groups if one.problem is not None]
    found += [row.problem for one in groups for row in one.partitions if row.problem is not None]
    return list(dict.fromkeys(found))


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000)
