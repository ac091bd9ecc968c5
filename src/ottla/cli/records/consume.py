"""`ottla consume`: reads records of topics, from any place, and writes them in any form."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.completing import complete_groups, complete_topics
from ottla.cli.frame.terminal import columns_of, has_colours, is_terminal
from ottla.cli.records.formats import Decoder, Format
from ottla.cli.records.places import (
    COMMITTED,
    END,
    START,
    Anchor,
    Bounds,
    Range,
    begin_offset,
    parse_place,
    parse_range,
    stop_offset,
)
from ottla.config.errors import UsageError

if TYPE_CHECKING:
    from ottla.cli.records.consuming import Consuming
    from ottla.cli.records.sinks import Sink
    from ottla.client.cluster_requests import ClusterRequests, TopicPartition
    from ottla.client.records.group import GroupMember
    from ottla.client.records.reader import ReadSettings, RecordReader, Span

COMMIT_SECONDS: Final = 1.0
SMALL_READ_RECORDS: Final = 1_000
"""Up to so many wanted records, the fetches are small."""
SMALL_FETCH_BYTES: Final = 64 << 10
DEFAULT_TEMPLATE: Final = r"%v\n"
_FORMATS: Final = [format.value for format in Format]


@command(
    "consume",
    examples=[
        "ottla consume orders",
        "ottla consume orders --from -10 --exit",
        "ottla consume orders --json --from start --exit > orders.jsonl",
        "ottla consume orders --from @-1h --to @-30m -f '%d{strftime[%F %T]} %k %v\\n'",
        "ottla consume orders --group audit --isolation read_uncommitted",
        "ottla consume '^orders-.*' --value-format avro --registry http://127.0.0.1:8081",
    ],
    help="""Read records of topics and write them to stdout.

TOPIC is a name, or a regular expression that begins with ^. On a terminal records are shown in columns;
otherwise each value is a line, unless --json or a template is given.

\b
PLACE is one of
  start, end    the log's first offset, or the one after its last
  17            an offset
  +3, -10       after the start, before the end
  @TIME         the first record of a time: 2026-03-01, 2026-03-01T12:30Z,
                1772366400000 (ms), or relative to now: @-1h, @-1d12h

\b
Templates (-f) are rpk's:
  %t topic      %k key         %v value        %p partition   %o offset
  %T %K %V      their lengths  %d timestamp    %e leader epoch
  %h{%k=%v }    headers        %H their number %i count from 1
  %x %y         producer's id and epoch        %a{compression} attributes
  %[ %| %]      the log's start, last stable offset, high watermark
  {hex} {base64} {unpack[>iH]} {big32} {strftime[%F]} {go[2006-01-02]} after
  them

Of kcat's, %s (value), %S, %R and %h without braces are read too; --kcat-format reads all as kcat does
(%T is the timestamp there, and a null has the length -1).""",
)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=complete_topics)
@click.option("--regex", "-r", is_flag=True, help="Every TOPIC is a regular expression.")
@click.option("--from", "from_", metavar="PLACE", help="Where to begin. [default: start]")
@click.option("--to", metavar="PLACE", help="Where to stop, before this place; then the command ends.")
@click.option(
    "--offset", "-o", metavar="RANGE", help="PLACE, or PLACE:PLACE from the first to before the second."
)
@click.option("--num", "-n", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@click.option(
    "--exit/--follow",
    "-e/ ",
    "exit_",
    default=None,
    help="End at the present end, or wait for more. [default: wait]",
)
@click.option("--partitions", "-p", metavar="N,…", help="Only these partitions: 0,3,5-9.")
@click.option(
    "--group",
    "-g",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Join this group, and commit the offsets of written records.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="Whether records of open and aborted transactions are left out.",
)
@click.option("--control", is_flag=True, help="Show control records too: commits and aborts.")
@click.option(
    "--format", "-f", "template", metavar="TEMPLATE", help="Write each record so, in rpk's language."
)
@click.option("--kcat-format", metavar="TEMPLATE", help="Write each record so, in kcat's language.")
@click.option(
    "--null", "null", metavar="TEXT", default="", help="The text for a null in templates. [default: none]"
)
@click.option(
    "--key-format", type=click.Choice(_FORMATS), default="bytes", help="Decode keys. [default: bytes]"
)
@click.option(
    "--value-format", type=click.Choice(_FORMATS), default="bytes", help="Decode values. [default: bytes]"
)
@click.option(
    "--registry",
    metavar="URL",
    envvar="OTTLA_REGISTRY",
    help="The Schema Registry. [or OTTLA_REGISTRY; default: http://127.0.0.1:8081]",
)
@click.option(
    "--registry-set",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the registry's client, as basic.auth.user.info=USER:PASSWORD.",
)
@click.option("--stats", is_flag=True, help="At the end, tell counts and rates on stderr.")
@click.option(
    "--rack", default="", metavar="RACK", help="Read from replicas of this rack, where brokers allow it."
)
@click.option(
    "--max-wait-ms",
    type=click.IntRange(0, 300_000),
    default=500,
    show_default=True,
    help="How long a broker may wait for records.",
)
@click.option(
    "--metadata-max-age-ms",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="How often to look for new topics and partitions, when more is waited for.",
)
@asks_cluster
async def consume(
    session: Session,
    topics: Sequence[str],
    regex: bool,
    from_: str | None,
    to: str | None,
    offset: str | None,
    num: int | None,
    exit_: bool | None,
    partitions: str | None,
    group: str | None,
    isolation: str,
    control: bool,
    template: str | None,
    kcat_format: str | None,
    null: str,
    key_format: str,
    value_format: str,
    registry: str | None,
    registry_set: Sequence[str],
    stats: bool,
    rack: str,
    max_wait_ms: int,
    metadata_max_age_ms: int,
) -> int | None:
    from ottla.cli.records.consuming import Consuming
    from ottla.cli.records.topics import parse_partitions, partitions_of
    from ottla.cli.records.writing_out import Out
    from ottla.client.cluster_requests import ClusterRequests
    from ottla.client.records.reader import ReadSettings

    wanted = _range(from_, to, offset, group is not None)
    chosen = None if partitions is None else parse_partitions(partitions)
    if group is not None and (chosen is not None or wanted.stop is not None):
        raise UsageError(
            "a group deals the partitions out and keeps the place: --partitions, --to and ranges don't go "
            "with --group"
        )
    keys, values = Format(key_format), Format(value_format)
    sink = _sink(session, template, kcat_format, null, keys, values, several=len(topics) > 1 or regex)
    client = _registry(registry, registry_set) if keys.has_schema or values.has_schema else None
    read_committed = isolation == "read_committed"
    consuming = Consuming(
        sink,
        Out(sys.stdout.fileno()),
        read_committed=read_committed,
        show_control=control,
        key_decoder=Decoder(keys, client, "key"),
        value_decoder=Decoder(values, client, "value"),
        most_records=num,
        counts_values=stats,
    )
    small = num is not None and num <= SMALL_READ_RECORDS
    settings = ReadSettings(
        read_committed=read_committed,
        max_wait_ms=max_wait_ms,
        rack_id=rack,
        on_skip=lambda partition, missing, found: session.output.warn(
            f"{partition}: offset {missing} is not there any more; reading goes on at {found}"
        ),
        **({"partition_max_bytes": SMALL_FETCH_BYTES, "waiting_bytes": 1 << 20} if small else {}),
    )
    cluster = ClusterRequests(session.access)
    began = time.monotonic()
    run = _Run(session, cluster, consuming, settings, wanted, bool(exit_))

    async def find() -> list[TopicPartition]:
        return await partitions_of(cluster, topics, is_pattern=regex, chosen=chosen)

    try:
        assigned = await find()
        if group is None:
            await run.assigned(assigned, find, metadata_max_age_ms / 1_000)
        else:
            await run.as_member(group, sorted({each.topic for each in assigned}))
    finally:
        if stats:
            _tell_stats(consuming, time.monotonic() - began)
        if client is not None:
            await client.close()
        await cluster.close()
    return None


@dataclass(slots=True)
class _Run:
    """One run of the command: the places that it reads, and the output."""

    session: Session
    cluster: ClusterRequests
    consuming: Consuming
    settings: ReadSettings
    wanted: Range
    ends: bool

    async def assigned(
        self,
        partitions: Sequence[TopicPartition],
        find: Callable[[], Awaitable[list[TopicPartition]]],
        find_seconds: float,
    ) -> None:
        """Read these partitions, outside of any group. find: tells those that there are by now."""
        from ottla.client.records.reader import RecordReader

        spans = await self._spans(partitions, {})
        reader = RecordReader(self.cluster, self.session.access, spans, self.settings)
        finding = None
        if not self.ends and self.wanted.stop is None:
            finding = asyncio.get_running_loop().create_task(self._find_new(reader, find, find_seconds))
        try:
            await self.consuming.all_of(reader)
        finally:
            if finding is not None:
                finding.cancel()
            await reader.close()
        if finding is not None:
            (ended,) = await asyncio.gather(finding, return_exceptions=True)
            if isinstance(ended, Exception):  # a fault of ours; it was cancelled otherwise
                raise ended

    async def _find_new(
        self, reader: RecordReader, find: Callable[[], Awaitable[list[TopicPartition]]], seconds: float
    ) -> None:
        """Read partitions that come while the command waits, from their first record on."""
        from ottla.client.errors import ClusterError
        from ottla.client.records.reader import Span

        known = set(reader.positions())
        while True:
            await asyncio.sleep(seconds)
            try:
                new = set(await find()) - known
            except ClusterError:
                continue  # the reader itself tells of a cluster or a topic that stays away
            reader.add({partition: Span(0) for partition in new})
            known |= new

    async def as_member(self, group_id: str, topics: Sequence[str]) -> None:
        """Read as a member of a group, one generation after the other."""
        from ottla.client.records.group import GroupMember

        member = GroupMember(self.cluster, self.session.access, group_id)
        try:
            while await self._generation(member, topics):
                member.check()
        finally:
            # Also after Ctrl-C: other members get the partitions at once.
            await member.leave()

    async def _generation(self, member: GroupMember, topics: Sequence[str]) -> bool:
        """Read until the group rebalances; whether there is more to read."""
        from ottla.cli.records.consuming import next_or_event
        from ottla.client.records.reader import RecordReader

        partitions = await member.join(topics)
        committed = await member.committed(partitions)
        spans = await self._spans(partitions, committed)
        consuming = self.consuming
        consuming.forget_visibility()
        consuming.positions = {}
        kept: dict[TopicPartition, int] = {}
        reader = RecordReader(self.cluster, self.session.access, spans, self.settings)
        last_commit = time.monotonic()
        try:
            while not consuming.is_full and not member.rebalancing.is_set():
                part = await next_or_event(reader, member.rebalancing)
                if part is None:
                    return member.rebalancing.is_set()
                await consuming.take(part)
                if time.monotonic() - last_commit > COMMIT_SECONDS and kept != consuming.positions:
                    kept = dict(consuming.positions)
                    await member.commit(kept)
                    last_commit = time.monotonic()
            return not consuming.is_full
        finally:
            await reader.close()
            if consuming.positions != kept:
                await member.commit(consuming.positions)

    async def _spans(
        self, partitions: Sequence[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Span]:
        """The offsets to read of each partition."""
        from ottla.client.records.reader import Span

        found = {}
        for partition, bounds in (await self._bounds(partitions, committed)).items():
            begin = committed.get(partition)
            start = begin_offset(self.wanted.begin, bounds) if begin is None else max(begin, bounds.start)
            stop = None if self.wanted.stop is None else stop_offset(self.wanted.stop, bounds)
            if self.ends:
                stop = bounds.end if stop is None else min(stop, bounds.end)
            if self.wanted.begin.anchor is Anchor.ZERO and self.wanted.begin.distance < bounds.start:
                self.session.output.warn(
                    f"{partition}: offset {self.wanted.begin.distance} is not there any more; reading begins "
                    f"at {bounds.start}"
                )
            found[partition] = Span(start, stop)
        return found

    async def _bounds(
        self, partitions: Sequence[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Bounds]:
        from ottla.client.admin.partition_offsets import EARLIEST, LATEST
        from ottla.client.records.offset_lookup import offsets_at

        if not partitions:
            return {}
        read_committed = self.settings.read_committed
        starts = await offsets_at(self.cluster, partitions, EARLIEST)
        ends = await offsets_at(self.cluster, partitions, LATEST, read_committed=read_committed)
        times: dict[TopicPartition, dict[int, int | None]] = {partition: {} for partition in partitions}
        for place in (self.wanted.begin, self.wanted.stop):
            if place is not None and place.anchor is Anchor.TIME:
                at = await offsets_at(self.cluster, partitions, max(place.time_ms, 0))
                for partition, offset in at.items():
                    times[partition][place.time_ms] = None if offset < 0 else offset
        return {
            partition: Bounds(
                starts[partition],
                max(ends[partition], starts[partition]),
                times[partition],
                committed.get(partition),
            )
            for partition in partitions
        }


def _range(from_: str | None, to: str | None, offset: str | None, in_group: bool) -> Range:
    """Where to begin and to stop, of three options."""
    now_ms = round(time.time() * 1_000)
    if offset is not None:
        if from_ is not None or to is not None:
            raise UsageError("--offset gives both places: leave --from and --to out")
        return parse_range(offset, now_ms)
    begin = START if from_ is None else parse_place(from_, now_ms)
    if begin == COMMITTED:
        if not in_group:
            raise UsageError(f"--from {from_} is a place of a group: give --group")
        begin = START
    stop = None if to is None else parse_place(to, now_ms)
    if begin == stop == END:
        raise UsageError("from the end to the end there is nothing to read")
    return Range(begin, stop)


def _sink(
    session: Session,
    template: str | None,
    kcat_format: str | None,
    null: str,
    keys: Format,
    values: Format,
    *,
    several: bool,
) -> Sink:
    from ottla.cli.records.escapes import literal
    from ottla.cli.records.sinks import JsonSink, PeopleSink, TemplateSink
    from ottla.cli.records.templates import kcat_template, rpk_template

    output = session.output
    if sum((template is not None, kcat_format is not None, output.is_json)) > 1:
        raise UsageError("give one of --json, --format and --kcat-format")
    if output.is_json:
        return JsonSink(decoded_keys=keys is not Format.BYTES, decoded_values=values is not Format.BYTES)
    if kcat_format is not None:
        return TemplateSink(kcat_template(kcat_format, literal(null)))
    if template is None and is_terminal(sys.stdout) and output.for_people:
        return PeopleSink(
            several_topics=several, colours=has_colours(sys.stdout), columns=columns_of(sys.stdout)
        )
    return TemplateSink(rpk_template(DEFAULT_TEMPLATE if template is None else template, literal(null)))


def _registry(url: str | None, words: Sequence[str]) -> Any:
    from ottla.cli.records.formats import registry_client
    from ottla.config.sources import from_words, texts

    return registry_client(url, texts(from_words(words)))


def _tell_stats(consuming: Consuming, seconds: float) -> None:
    stats = consuming.stats
    rate = stats.records / seconds if seconds else 0.0
    size = stats.value_bytes + stats.key_bytes
    lines = [
        f"{stats.records} records, {size} bytes of keys and values, {seconds:.3f} s: {rate:.0f} records/s, "
        f"{size / max(seconds, 1e-9) / 1e6:.1f} MB/s"
    ]
    lines += [
        f"{partition}: offsets {first} to {last}"
        for partition, (first, last) in sorted(stats.offsets.items())
    ]
    print("\n".join(lines), file=sys.stderr)
