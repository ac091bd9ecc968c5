"""`ottla log dump`: the content of files of a data directory, or of a partition on a live broker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from ottla.cli.cluster.topic_words import Place, place_of, time_ms_of
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.completing import complete_topics
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.output import Output
from ottla.cli.frame.running import tell
from ottla.cli.log.file_contents import Depth, Part, batch_parts, files_below, parts_of
from ottla.cli.log.range import Range
from ottla.cli.log.shown import line_of
from ottla.config.errors import UsageError
from ottla.protocol.internal_records import RecordFormat, format_of
from ottla.storage.inspection.problem import DamagedFile, Problem

INDENTED = frozenset({"record"})


@command(
    "dump",
    examples=(
        "ottla log dump /data/orders-0/00000000000000000000.log",
        "ottla log dump /data/orders-0 --offset 4711 --payload -n 10",
        "ottla log dump /data/__cluster_metadata-0 --records --json",
        "ottla log dump --topic orders --partition 0 --at -1h",
    ),
)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--topic", shell_complete=complete_topics, help="In place of files, a topic on a live broker.")
@click.option("--partition", type=click.IntRange(0), default=0, show_default=True, help="Of --topic.")
@click.option("--records", is_flag=True, help="Tell the records of each batch, of internal topics decoded.")
@click.option("--payload", is_flag=True, help="Tell keys, values and headers of records too.")
@click.option("--offset", type=click.IntRange(0), help="Begin with the batch that has this offset.")
@click.option("--at", metavar="TIME", help="Begin with the first batch as late: 2026-01-31T12:00, -2h.")
@click.option("--to", metavar="PLACE", help="End with this offset, or after @ with this time.")
@click.option("-n", "--limit", type=click.IntRange(1), help="At most so many batches, or records.")
@click.option(
    "--decode",
    type=click.Choice([one.value for one in RecordFormat]),
    help="The format of the records (default: by the topic's name).",
)
@asks_cluster
async def dump(
    session: Session,
    paths: Sequence[Path],
    topic: str | None,
    partition: int,
    records: bool,
    payload: bool,
    offset: int | None,
    at: str | None,
    to: str | None,
    limit: int | None,
    decode: str | None,
) -> int:
    """Tell the content of files, of all files in directories, or of a live partition.

    With a range or a limit, directories mean their segments. With --json each line is an object with "kind"
    (batch, record, entry, aborted, producer, epoch, offset, content) and "file". A damaged place is told on
    stderr, and the exit code is 1.
    """
    if (topic is None) == (not paths):
        raise UsageError("name files or directories, or a --topic" + ("" if topic is None else ", not both"))
    wanted = _range(offset, at, to, limit)
    record_format = None if decode is None else RecordFormat(decode)
    depth = Depth(records or payload or record_format is not None, payload, record_format)
    teller = _Teller(session.output)
    if topic is not None:
        await _dump_live(session, topic, partition, wanted, depth, teller)
    else:
        for path in paths:
            _dump_files(path, wanted, depth, teller)
    return teller.exit_code


def _range(offset: int | None, at: str | None, to: str | None, limit: int | None) -> Range:
    now = datetime.now(UTC)
    end = Place() if to is None else place_of("--to", to, now)
    from_ms = None if at is None else time_ms_of("--at", at.removeprefix("@"), now)
    return Range(offset, from_ms, end.offset, end.time_ms, limit)


class _Teller:
    """Writes the parts of files, and remembers whether one was damaged."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._path = click.get_current_context().command_path
        self._file: str | None = None
        self._heading = False
        self.exit_code = ExitCode.DONE

    def file(self, name: str) -> None:
        """The next parts are those of this file."""
        self._file = name
        self._heading = self._output.for_people

    def part(self, part: Part | Problem) -> None:
        """Write a part; a Problem on stderr."""
        if isinstance(part, Problem):
            self.problem(part)
            return
        if self._heading:
            self._output.say(f"# {self._file}")
            self._heading = False
        kind, shown = part
        if self._output.is_json:
            self._output.json({"kind": kind, "file": self._file, **shown})
        elif self._output.is_quiet:
            self._output.line(str(next(iter(shown.values()), "")))
        else:
            self._output.say(line_of(shown, "| " if kind in INDENTED else ""))

    def problem(self, problem: Problem) -> None:
        """Tell a damaged place."""
        self.exit_code = ExitCode.FAILED
        tell(self._path, str(problem))


def _dump_files(path: Path, wanted: Range, depth: Depth, teller: _Teller) -> None:
    try:
        for known in files_below(path, batches_only=wanted.is_bounded):
            if wanted.limit == 0:
                return
            teller.file(str(known.path))
            try:
                for part in parts_of(known, wanted, depth):
                    teller.part(part)
            except FileNotFoundError:
                continue  # a broker has deleted it meanwhile
    except DamagedFile as damaged:
        teller.problem(damaged.problem)


async def _dump_live(
    session: Session, topic: str, partition: int, wanted: Range, depth: Depth, teller: _Teller
) -> None:
    from ottla.cli.cluster.any_broker import cluster_client
    from ottla.cli.log.live_partition import live_batches
    from ottla.client.cluster_requests import TopicPartition

    place = TopicPartition(topic, partition)
    record_format = depth.record_format or format_of(topic)
    teller.file(str(place))
    async with cluster_client(session.access) as client:
        async for batch in live_batches(client, place, wanted):
            if isinstance(batch, Problem):
                teller.part(batch)
                continue
            for part in batch_parts(None, batch, wanted, depth, record_format):
                teller.part(part)
            if wanted.limit == 0:
                return
