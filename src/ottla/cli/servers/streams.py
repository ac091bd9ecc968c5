"""`ottla streams`: run applications of the Streams DSL, show their topologies, and start them anew.

run        start an application and keep it running, with its progress in the terminal
describe   its topology, as text, JSON, a Mermaid diagram or a picture; needs neither Spark nor a broker
reset      remove its checkpoints, internal topics and groups, so that the next start begins anew
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ottla.cli.frame.commands import group
from ottla.cli.frame.confirming import yes_option
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.options import Decorated, pairs_of, pairs_option, require_at_most_one
from ottla.cli.frame.terminal import is_terminal
from ottla.cli.servers.log_lines import log_to_stderr
from ottla.cli.servers.options import log_level_option, metrics_option
from ottla.config.errors import ConfigError, UsageError, UserError
from ottla.config.sources import SET
from ottla.metrics.settings import parse_address

if TYPE_CHECKING:
    from ottla.pipeline.query.query import PipelineQuery
    from ottla.pipeline.query.query_progress import QueryProgress
    from ottla.streams.plan.topology import Topology
    from ottla.streams.run.application import RunningStreams
    from ottla.streams.run.reset import ResetPlan
    from ottla.streams.run.settings import StreamsSettings

SPARK: Final = "--spark"
PORT: Final = click.IntRange(0, 65_535)
POSITIVE: Final = click.IntRange(min=1)
LOOPBACK: Final = "127.0.0.1"


@group("streams", examples=["ottla streams run app.py", "ottla streams describe app.py"])
def streams() -> None:
    """Run, describe and reset applications of the Streams DSL on Spark."""


def _app_argument(required: bool = True) -> Decorated:
    """APP and --name."""
    app = click.argument("app", required=required, metavar="APP" if required else "[APP]")
    name = click.option("--name", metavar="NAME", help="The variable that is the application.")
    return lambda function: app(name(function))


def _place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        (
            click.option(
                "--bootstrap",
                metavar="HOST:PORT",
                help="The cluster. [or OTTLA_BOOTSTRAP; default: 127.0.0.1:9092]",
            ),
            click.option(
                "--state",
                type=click.Path(path_type=Path),
                metavar="DIR",
                help="Where checkpoints and state are kept. [or OTTLA_STREAMS_STATE; default: ottla-streams]",
            ),
            pairs_option(
                SET, "set_words", "An option of the Kafka client, by librdkafka's names; may be repeated."
            ),
        )
    ):
        function = option(function)
    return function


# -- numbers and times ---------------------------------------------------------------------------------------


def _seconds(text: str) -> int:
    """A number of seconds in milliseconds."""
    value = float(text)
    if not 0.001 <= value < 1e9:
        raise click.BadParameter("must be more than 0")
    return int(value * 1000)


def _instant(text: str) -> int:
    """A time in milliseconds since 1970, from ISO 8601 (UTC without a zone) or from such a number."""
    if text.isdecimal():
        return int(text)
    try:
        time_given = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time: write 2026-01-31T12:00:00Z") from None
    if time_given.tzinfo is None:
        time_given = time_given.replace(tzinfo=UTC)
    return max(0, int(time_given.timestamp() * 1000))


# -- run ---------------------------------------------------------------------------------------------------


class RunOptions(NamedTuple):
    """The values of the options of `run`, as its help explains them."""

    app: str
    name: str | None
    bootstrap: str | None
    state: Path | None
    set_words: tuple[str, ...]
    master: str | None
    dead_letters: str | None
    partitions: int | None
    batch_records: int | None
    driver_memory: str | None
    heartbeat: int | None
    trigger_interval: int | None
    at_least_once: bool
    mode: str | None
    replay_from: int | None
    forget_lost_state: bool
    metrics: str | None
    metrics_users: Path | None
    metrics_config: Path | None
    queries_port: int | None
    until_caught_up: bool
    plain: bool
    spark: tuple[str, ...]
    log_level: str


@streams.command(
    "run",
    examples=[
        "ottla streams run app.py",
        "ottla streams run app.py --state /var/lib/app --metrics 127.0.0.1:9400",
    ],
    epilog="APP is a Python file or a module, with :NAME behind it where it has several applications.",
)
@_app_argument()
@_place_options
@click.option("--master", help="Spark's master. [default: all cores of this machine]")
@click.option("--dead-letters", metavar="TOPIC", help="Where records go that can't be read.")
@click.option(
    "--partitions",
    type=POSITIVE,
    metavar="N",
    help="Of internal topics, and parts that state has; fixed by the first start.",
)
@click.option("--batch-records", type=POSITIVE, metavar="N", help="Of a topic, in a batch, at most.")
@click.option("--driver-memory", metavar="SIZE", help="Spark's heap, as 2g.")
@click.option(
    "--heartbeat",
    type=_seconds,
    metavar="SECONDS",
    help="After so long without input event time goes on with the clock, so that windows close.",
)
@click.option(
    "--trigger-interval",
    type=_seconds,
    metavar="SECONDS",
    help="Between the beginnings of two batches. [default: one after the other]",
)
@click.option(
    "--at-least-once",
    is_flag=True,
    help="Stateless queries may write records twice after a failure; real time where Spark can.",
)
@click.option(
    "--mode",
    type=click.Choice(("auto", "real-time", "micro-batch")),
    help="How queries run; each says on its start what it got and why. [default: auto]",
)
@click.option(
    "--replay-from",
    type=_instant,
    metavar="TIME",
    help="Where queries without a checkpoint begin (ISO 8601 or milliseconds since 1970).",
)
@click.option("--forget-lost-state", is_flag=True, help="Begin anew although checkpoints are gone.")
@metrics_option("A port alone is one of this machine's own.")
@click.option(
    "--metrics-users",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Who may read the metrics, which an address that others reach needs: lines as `name: HASH`, by "
    "`ottla user hash`.",
)
@click.option(
    "--metrics-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Further settings of the metrics' address, as the registry has them: ottla.metrics.*, and ssl.* for "
    "https://HOST:PORT.",
)
@click.option("--queries-port", type=PORT, metavar="PORT", help="Interactive queries over HTTP on this port.")
@click.option("--until-caught-up", is_flag=True, help="End when all that is there now is done.")
@click.option("--plain", is_flag=True, help="Progress as lines, also on a terminal.")
@pairs_option(SPARK, "spark", "A Spark property; may be repeated.")
@log_level_option
def run(**options: Any) -> int:
    """Start an application and keep it running until Ctrl-C or SIGTERM, with its progress in the terminal."""
    given = RunOptions(**options)
    return _run(given._replace(metrics=_metrics_place(given.metrics)))


def _run(options: RunOptions) -> int:
    from ottla.streams.run.app_file import load_app, module_of, ship_with_functions
    from ottla.streams.run.application import start

    app = load_app(options.app, options.name)
    log_to_stderr(options.log_level)
    ship_with_functions(module_of(options.app))
    settings = _settings(options)
    shown = _Shown()
    with _live(shown, options), start(app.topology(), settings, on_progress=shown.saw) as running:
        shown.running = running
        if not settings.pace.until_caught_up:
            _tell_started(running)
        with running.stopping_on_signals():
            running.await_end()
        _tell(f"{app.name} is stopping: the batch that runs is finished first")
    _tell(f"{app.name} has {'caught up' if settings.pace.until_caught_up else 'stopped'}")
    return 0


class _Shown:
    """The queries that the live view shows: those that have made progress, also while others still start."""

    def __init__(self) -> None:
        self.running: RunningStreams | None = None
        self._seen: dict[str, PipelineQuery] = {}

    def saw(self, query: PipelineQuery, progress: QueryProgress) -> None:
        self._seen[query.name] = query

    @property
    def queries(self) -> list[PipelineQuery]:
        return list(self.running.queries if self.running is not None else self._seen.values())


@contextlib.contextmanager
def _live(shown: _Shown, options: RunOptions) -> Iterator[None]:
    from rich.console import Console

    from ottla.pipeline.query.live_view import LiveView

    console = Console(stderr=True, force_terminal=False if options.plain else None)
    viewed: Any = shown  # it has the one property that is looked at
    with LiveView(viewed, console):
        yield


def _tell_started(running: RunningStreams) -> None:
    count = len(running.queries)
    _tell(
        f"{running.topology.name} runs on {running.settings.place.cluster.bootstrap}: {count} "
        f"{'query' if count == 1 else 'queries'}, state in {running.directory}; Ctrl-C stops it"
    )
    for name, mode in running.modes.items():
        _tell(f"  {name}: {mode}")
    if running.metrics_url is not None:
        _tell(f"metrics are at {running.metrics_url}")
    if running.queries_url is not None:
        _tell(f"tables answer at {running.queries_url}/tables")
        if not running.plan.materialized:
            _tell("but there are none: name them with Table.materialize()")


def _settings(options: RunOptions) -> StreamsSettings:
    from ottla.pipeline.query.realtime import Wanted
    from ottla.streams.run.settings import StreamsSettings

    default = StreamsSettings.from_environment()
    given: dict[str, Any] = {
        "bootstrap": options.bootstrap or default.place.cluster.bootstrap,
        "state": options.state or default.place.state,
        "traces": default.watching.traces,
        "master": options.master,
        "dead_letters": options.dead_letters,
        "partitions": options.partitions,
        "batch_records": options.batch_records,
        "driver_memory": options.driver_memory,
        "heartbeat_ms": options.heartbeat,
        "replay_from_ms": options.replay_from,
        "trigger_interval_ms": options.trigger_interval,
        "mode": None if options.mode is None else Wanted(options.mode),
        "at_least_once": options.at_least_once,
        "metrics": options.metrics,
        "metrics_users": options.metrics_users,
        "metrics_config": options.metrics_config,
        "queries_port": options.queries_port,
        "client_options": pairs_of(SET, options.set_words),
        "spark_properties": pairs_of(SPARK, options.spark),
        "until_caught_up": options.until_caught_up,
        "forget_lost_state": options.forget_lost_state,
    }
    return StreamsSettings(**{name: value for name, value in given.items() if value is not None})


def _metrics_place(given: str | None) -> str | None:
    """HOST:PORT; a port alone is one of this machine's own. Raises UsageError."""
    if given is None:
        return None
    place = f"{LOOPBACK}:{given}" if given.isdecimal() else given
    try:
        parse_address(place)
    except ConfigError as problem:
        raise UsageError(str(problem)) from None
    return place


# -- describe ----------------------------------------------------------------------------------------------


@streams.command(
    "describe",
    examples=["ottla streams describe app.py", "ottla streams describe app.py --svg topology.svg"],
    epilog="APP is a Python file or a module, with :NAME behind it where it has several applications.",
)
@_app_argument()
@click.option(
    "--svg", type=click.Path(path_type=Path), metavar="FILE", help="Draw it into a file; - is stdout."
)
@click.option("--mermaid", is_flag=True, help="As a Mermaid flowchart.")
@click.option("--json", is_flag=True, help="As JSON.")
def describe(app: str, name: str | None, svg: Path | None, mermaid: bool, json: bool) -> int:
    """Show an application's topology; needs neither Spark nor a broker."""
    require_at_most_one({"--svg": svg, "--mermaid": mermaid, "--json": json})
    from ottla.streams.run.app_file import load_app
    from ottla.streams.show import describe as forms

    topology = load_app(app, name).topology()
    if svg is not None:
        _draw(topology, svg)
    elif mermaid:
        sys.stdout.write(forms.mermaid(topology))
    elif json:
        sys.stdout.write(forms.as_json(topology))
    else:
        sys.stdout.write(forms.describe(topology))
    return 0


def _draw(topology: Topology, path: Path) -> None:
    from ottla.streams.show.picture import picture

    drawn = picture(topology)
    if str(path) == "-":
        sys.stdout.write(drawn)
        return
    try:
        path.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise UserError(f"can't write {path}: {error.strerror}") from None


# -- reset -------------------------------------------------------------------------------------------------


class ResetOptions(NamedTuple):
    """The values of the options of `reset`, as its help explains them."""

    app: str | None
    name: str | None
    application: str | None
    bootstrap: str | None
    state: Path | None
    set_words: tuple[str, ...]
    to_earliest: bool
    to_latest: bool
    to_datetime: int | None
    dry_run: bool
    yes: bool


@streams.command(
    "reset",
    examples=[
        "ottla streams reset app.py --dry-run",
        "ottla streams reset --application orders --to-earliest --yes",
    ],
    epilog="APP is a Python file or a module, with :NAME behind it where it has several applications.",
)
@_app_argument(required=False)
@click.option("--application", metavar="ID", help="In place of the file: the application's name.")
@_place_options
@click.option("--to-earliest", is_flag=True, help="Begin next at the start of every stream.")
@click.option("--to-latest", is_flag=True, help="Begin next with records from now on.")
@click.option("--to-datetime", type=_instant, metavar="TIME", help="Begin next at this time.")
@click.option("--dry-run", is_flag=True, help="Only list the things to be removed.")
@yes_option
def reset(**options: Any) -> int:
    """Remove an application's checkpoints, internal topics and groups, so that its next start begins anew."""
    return _reset(ResetOptions(**options))


def _reset(options: ResetOptions) -> int:
    """Remove the things after a yes; the exit code. Raises UserError."""
    require_at_most_one(
        {
            "--to-earliest": options.to_earliest,
            "--to-latest": options.to_latest,
            "--to-datetime": options.to_datetime,
        }
    )
    if (options.app is None) == (options.application is None):
        raise UsageError("reset needs APP or --application, one of both")
    from ottla.client.access import ClusterAccess
    from ottla.streams.run.app_file import load_app
    from ottla.streams.run.reset import plan_reset, reset
    from ottla.streams.run.settings import StreamsSettings

    app = None if options.app is None else load_app(options.app, options.name)
    application = app.name if app is not None else options.application or ""
    default = StreamsSettings.from_environment().place
    try:
        planned = plan_reset(
            application,
            None if app is None else app.topology(),
            ClusterAccess(options.bootstrap or default.cluster.bootstrap, pairs_of(SET, options.set_words)),
            options.state or default.state,
            begin_ms=_beginning(options),
        )
        print(_told(planned))
        if options.dry_run:
            return 0
        if not options.yes and not _confirmed():
            return ExitCode.FAILED
        for line in reset(planned):
            print(f"removed {line}")
    except OSError as error:
        problem = f"{error.strerror}: {error.filename}"
        raise UserError(f"{problem}; the reset is not complete, call it again") from None
    print(f"{application} is reset")
    return 0


def _beginning(options: ResetOptions) -> int | None:
    if options.to_earliest:
        return 0
    if options.to_latest:
        return time.time_ns() // 1_000_000
    return options.to_datetime


def _told(planned: ResetPlan) -> str:
    lines = [f"reset of {planned.application} on {planned.cluster.bootstrap} removes"]
    remains = planned.remains
    lines += [f"  directory {path}" for path in remains.directories]
    lines += [f"  topic {topic}" for topic in remains.topics]
    lines += [f"  group {group}" for group in remains.groups]
    lines += [f"  the ledgers of the exactly-once sinks of {len(remains.queries)} possible queries"]
    match planned.begin_ms:
        case None:
            lines.append("the next start begins where the sources say")
        case 0:
            lines.append("the next start begins at the start of every stream")
        case begin_ms:
            lines.append(f"the next start begins at {_iso(begin_ms)}; tables are read whole")
    lines.append("input, output and dead letters stay")
    return "\n".join(lines)


def _confirmed() -> bool:
    if not is_terminal(sys.stdin):
        raise UserError("this needs a yes, and there is no terminal to ask on: --yes goes on without asking")
    return input("go on? [y/N] ").strip().lower() in ("y", "yes")


# -- common ------------------------------------------------------------------------------------------------


def _tell(line: str) -> None:
    print(line, flush=True)


def _iso(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
