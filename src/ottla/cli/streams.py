"""`ottla streams`: run applications of the Streams DSL, show what they do, and start them anew.

run        start an application and keep it running, with its progress in the terminal
describe   its topology, as text, JSON, a Mermaid diagram or a picture; needs neither Spark nor a broker
reset      remove its checkpoints, internal topics and groups, so that the next start begins anew
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.options import add_log_level, add_pairs, log_to_stderr, pairs_of
from ottla.config.errors import UsageError, UserError
from ottla.config.sources import SET

if TYPE_CHECKING:
    from ottla.pipeline.query.query import PipelineQuery
    from ottla.pipeline.query.query_progress import QueryProgress
    from ottla.streams.plan.topology import Topology
    from ottla.streams.run.application import RunningStreams
    from ottla.streams.run.reset import ResetPlan
    from ottla.streams.run.settings import StreamsSettings

EXIT_FAILURE: Final = 1
EXIT_INTERRUPTED: Final = 130
PROG: Final = "ottla streams"
SPARK: Final = "--spark"


def main(argv: Sequence[str]) -> int:
    """Run one of the subcommands; its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

    Raises UserError, which the command's entry tells.
    """
    options = _parser().parse_args(list(argv))
    try:
        code: int = options.command(options)
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROG, description="Applications of the Streams DSL on Spark.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run an application until Ctrl-C or SIGTERM")
    _add_app(run)
    _add_place(run)
    run.add_argument("--master", help="Spark's master (default: all cores of this machine)")
    run.add_argument("--dead-letters", metavar="TOPIC", help="where records go that can't be read")
    run.add_argument(
        "--partitions",
        type=_positive,
        metavar="N",
        help="of internal topics, and parts that state has; fixed by the first start",
    )
    run.add_argument("--batch-records", type=_positive, metavar="N", help="of a topic, in a batch, at most")
    run.add_argument("--driver-memory", metavar="SIZE", help="Spark's heap, as 2g")
    run.add_argument(
        "--heartbeat",
        type=_seconds,
        metavar="SECONDS",
        help="after so long without input event time goes on with the clock, so that windows close",
    )
    run.add_argument(
        "--trigger-interval",
        type=_seconds,
        metavar="SECONDS",
        help="between the beginnings of two batches (default: one after the other)",
    )
    run.add_argument(
        "--at-least-once",
        action="store_true",
        help="stateless queries may write records twice after a failure; real time where Spark can",
    )
    run.add_argument(
        "--mode",
        choices=("auto", "real-time", "micro-batch"),
        help="how queries run (default: auto); each says on its start what it got and why",
    )
    run.add_argument(
        "--replay-from",
        type=_instant,
        metavar="TIME",
        help="where queries without a checkpoint begin (ISO 8601 or milliseconds since 1970)",
    )
    run.add_argument(
        "--forget-lost-state", action="store_true", help="begin anew although checkpoints are gone"
    )
    run.add_argument("--metrics", type=_port, metavar="PORT", help="Prometheus metrics on this port")
    run.add_argument(
        "--queries-port", type=_port, metavar="PORT", help="interactive queries over HTTP on this port"
    )
    run.add_argument("--until-caught-up", action="store_true", help="end when all that is there now is done")
    run.add_argument("--plain", action="store_true", help="progress as lines, also on a terminal")
    add_pairs(run, SPARK, "a Spark property; may be repeated")
    add_log_level(run)
    run.set_defaults(command=_run)

    describe = commands.add_parser("describe", help="show the topology")
    _add_app(describe)
    form = describe.add_mutually_exclusive_group()
    form.add_argument("--svg", type=Path, metavar="FILE", help="draw it into a file; - is stdout")
    form.add_argument("--mermaid", action="store_true", help="as a Mermaid flowchart")
    form.add_argument("--json", action="store_true", help="as JSON")
    describe.set_defaults(command=_describe)

    reset = commands.add_parser("reset", help="start anew: remove checkpoints, internal topics and groups")
    _add_app(reset, optional=True)
    reset.add_argument("--application", metavar="ID", help="in place of the file: the application's name")
    _add_place(reset)
    begin = reset.add_mutually_exclusive_group()
    begin.add_argument("--to-earliest", action="store_true", help="begin next at the start of every stream")
    begin.add_argument("--to-latest", action="store_true", help="begin next with records from now on")
    begin.add_argument("--to-datetime", type=_instant, metavar="TIME", help="begin next at this time")
    reset.add_argument("--dry-run", action="store_true", help="only list the things to be removed")
    reset.add_argument("--yes", action="store_true", help="do not ask")
    reset.set_defaults(command=_reset)
    return parser


def _add_app(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    parser.add_argument(
        "app",
        nargs="?" if optional else None,
        metavar="APP",
        help="a Python file or a module, with :NAME behind it where it has several applications",
    )
    parser.add_argument("--name", metavar="NAME", help="the variable that is the application")


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="the cluster (or OTTLA_BOOTSTRAP; default: 127.0.0.1:9092)"
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help="where checkpoints and state are kept (or OTTLA_STREAMS_STATE; default: ottla-streams)",
    )
    add_pairs(parser, SET, "an option of the Kafka client, by librdkafka's names; may be repeated")


# -- run ---------------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
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
def _live(shown: _Shown, options: argparse.Namespace) -> Iterator[None]:
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
    if running.queries_url is not None:
        _tell(f"tables answer at {running.queries_url}/tables")
        if not running.plan.materialized:
            _tell("but there are none: name them with Table.materialize()")


def _settings(options: argparse.Namespace) -> StreamsSettings:
    from ottla.pipeline.query.realtime import Wanted
    from ottla.streams.run.settings import StreamsSettings

    default = StreamsSettings.from_environment().place
    given: dict[str, Any] = {
        "bootstrap": options.bootstrap or default.cluster.bootstrap,
        "state": options.state or default.state,
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
        "metrics_port": options.metrics,
        "queries_port": options.queries_port,
        "client_options": pairs_of(SET, options.set),
        "spark_properties": pairs_of(SPARK, options.spark),
        "until_caught_up": options.until_caught_up,
        "forget_lost_state": options.forget_lost_state,
    }
    return StreamsSettings(**{name: value for name, value in given.items() if value is not None})


# -- describe ----------------------------------------------------------------------------------------------


def _describe(options: argparse.Namespace) -> int:
    from ottla.streams.run.app_file import load_app
    from ottla.streams.show import describe

    topology = load_app(options.app, options.name).topology()
    if options.svg is not None:
        _draw(topology, options.svg)
    elif options.mermaid:
        sys.stdout.write(describe.mermaid(topology))
    elif options.json:
        sys.stdout.write(describe.as_json(topology))
    else:
        sys.stdout.write(describe.describe(topology))
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


def _reset(options: argparse.Namespace) -> int:
    if (options.app is None) == (options.application is None):
        raise UsageError("reset needs APP or --application, one of both")
    from ottla.client.access import ClusterAccess
    from ottla.streams.run.app_file import load_app
    from ottla.streams.run.reset import plan_reset, reset
    from ottla.streams.run.settings import StreamsSettings

    app = None if options.app is None else load_app(options.app, options.name)
    application = options.application if app is None else app.name
    default = StreamsSettings.from_environment().place
    try:
        planned = plan_reset(
            application,
            None if app is None else app.topology(),
            ClusterAccess(options.bootstrap or default.cluster.bootstrap, pairs_of(SET, options.set)),
            options.state or default.state,
            begin_ms=_beginning(options),
        )
        print(_told(planned))
        if options.dry_run:
            return 0
        if not options.yes and not _confirmed():
            return EXIT_FAILURE
        for line in reset(planned):
            print(f"removed {line}")
    except OSError as error:
        problem = f"{error.strerror}: {error.filename}"
        raise UserError(f"{problem}; the reset is not complete, call it again") from None
    print(f"{application} is reset")
    return 0


def _beginning(options: argparse.Namespace) -> int | None:
    if options.to_earliest:
        return 0
    if options.to_latest:
        return time.time_ns() // 1_000_000
    found: int | None = options.to_datetime
    return found


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
    if not sys.stdin.isatty():
        raise UserError("this needs a yes, and there is no terminal to ask on: --yes goes on without asking")
    return input("go on? [y/N] ").strip().lower() in ("y", "yes")


# -- common ------------------------------------------------------------------------------------------------


def _tell(line: str) -> None:
    print(line, flush=True)


def _iso(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65_535:
        raise argparse.ArgumentTypeError("must be a port, 0 to 65535")
    return value


def _seconds(text: str) -> int:
    """A number of seconds in milliseconds."""
    value = float(text)
    if not 0.001 <= value < 1e9:
        raise argparse.ArgumentTypeError("must be more than 0")
    return int(value * 1000)


def _instant(text: str) -> int:
    """A time in milliseconds since 1970, from ISO 8601 (UTC without a zone) or from such a number."""
    if text.isdecimal():
        return int(text)
    try:
        time_given = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 2026-01-31T12:00:00Z") from None
    if time_given.tzinfo is None:
        time_given = time_given.replace(tzinfo=UTC)
    return max(0, int(time_given.timestamp() * 1000))
