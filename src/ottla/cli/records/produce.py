"""`ottla produce`: writes records from stdin or files, in any form, each exactly once."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.completing import complete_topics
from ottla.cli.frame.terminal import is_terminal
from ottla.cli.records.formats import Format
from ottla.cli.records.writer_options import batch_bytes_option, compression_option
from ottla.config.errors import UsageError, UserError

if TYPE_CHECKING:
    from ottla.cli.records.formats import Encode
    from ottla.cli.records.producing import Defaults
    from ottla.client.records.transaction import Transaction
    from ottla.client.records.writer import RecordWriter

LENGTH_PREFIXED: Final = "%V{big32}%v"
_FORMATS: Final = [format.value for format in Format]
_ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}


@command(
    "produce",
    examples=[
        "echo hello | ottla produce orders",
        "ottla produce orders lines.txt",
        "ottla produce orders --key-separator : < pairs.txt",
        "ottla consume orders --json --exit | ottla produce copy --json",
        "ottla produce orders --value-format avro --schema order.avsc < orders.jsonl",
        "ottla produce orders -f '%k %H %h{%k=%v }%v\\n' < records.txt",
        "ottla produce orders --transactional-id nightly lines.txt",
    ],
    help="""Write records to a topic, from FILEs or stdin: a line is a value, unless told otherwise.

With --json a line is a JSON object: {"key": "k", "value": "v", "headers": {"a": "b"}, "partition": 0,
"timestamp": 1772366400000}, all of which may be missing. Bytes that are not UTF-8 are {"base64": "…"};
headers with one name are a list of [name, value]. `ottla consume --json` writes such lines.

\b
Templates (-f) are rpk's:
  %k key   %v value   %t topic   %p partition   %d timestamp (ms)
  %K %V %T their lengths, before them; %H%h{%k=%v } headers after their number
  {hex} {base64} {json} {re[…]} after texts; {big32} {byte} {4} after numbers

Everything is acknowledged when the command ends with 0. A record that can't be written ends it with 1: one
line names the record's line, and how many were written. With --transactional-id it is all of the input or
nothing.""",
)
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.argument("files", nargs=-1, metavar="[FILE]…", type=click.Path())
@click.option("--delimiter", "-D", metavar="TEXT", help=r"Records end so, with \n \t \xNN. [default: \n]")
@click.option(
    "--key-separator", "-K", metavar="TEXT", help="A record is KEY TEXT VALUE; without TEXT, it is a value."
)
@click.option("--whole-file", is_flag=True, help="Each file is the value of one record.")
@click.option(
    "--length-prefixed", is_flag=True, help="Each value comes after its length, 4 bytes big-endian."
)
@click.option(
    "--format", "-f", "template", metavar="TEMPLATE", help="Records have this form, in rpk's language."
)
@click.option("--key", "-k", metavar="TEXT", help="The key of records that have none.")
@click.option(
    "--header",
    "-H",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of all records; without =, its value is null.",
)
@click.option(
    "--partition",
    "-p",
    type=click.IntRange(min=0),
    metavar="N",
    help="The partition. [default: by the key, as Java does]",
)
@click.option("--timestamp", metavar="TIME", help="The time of all records: ISO, ms, or -1h. [default: now]")
@click.option("--tombstone", "-Z", is_flag=True, help="An empty key or value is none.")
@click.option("--null", metavar="TEXT", help="A key or value of this text is none.")
@click.option(
    "--key-format",
    type=click.Choice(_FORMATS),
    default="bytes",
    help="Encode keys, given as JSON. [default: bytes]",
)
@click.option(
    "--value-format",
    type=click.Choice(_FORMATS),
    default="bytes",
    help="Encode values, given as JSON. [default: bytes]",
)
@click.option("--schema-id", type=click.IntRange(min=1), help="The schema of values, by its id.")
@click.option("--key-schema-id", type=click.IntRange(min=1), help="The schema of keys, by its id.")
@click.option(
    "--schema",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The schema of values, registered if it is new.",
)
@click.option(
    "--key-schema",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The schema of keys, registered if it is new.",
)
@click.option("--subject", metavar="NAME", help="The subject of values' schemas. [default: TOPIC-value]")
@click.option("--key-subject", metavar="NAME", help="The subject of keys' schemas. [default: TOPIC-key]")
@click.option(
    "--registry",
    metavar="URL",
    envvar="OTTLA_REGISTRY",
    help="The Schema Registry. [or OTTLA_REGISTRY; default: http://127.0.0.1:8081]",
)
@click.option(
    "--registry-set", multiple=True, metavar="KEY=VALUE", help="A setting of the registry's client."
)
@compression_option
@click.option("--compression-level", type=int, metavar="N", help="The codec's level.")
@click.option(
    "--acks",
    type=click.Choice(list(_ACKS)),
    default="all",
    show_default=True,
    help="Who must have a batch before it counts as written.",
)
@click.option(
    "--idempotence/--no-idempotence",
    default=True,
    help="Write each record once, in order, over retries (with acks=all).",
)
@click.option(
    "--transactional-id", metavar="ID", help="Write all of the input as one transaction, or nothing."
)
@click.option(
    "--transaction-timeout-ms",
    type=click.IntRange(min=1),
    default=60_000,
    show_default=True,
    help="After this time the cluster aborts the transaction.",
)
@click.option(
    "--linger-ms",
    type=click.IntRange(0, 60_000),
    default=5,
    show_default=True,
    help="How long to wait for more input before records are sent.",
)
@batch_bytes_option
@click.option(
    "--buffer-bytes",
    type=click.IntRange(1, 1 << 40),
    default=32 << 20,
    show_default=True,
    help="How much may wait to be written.",
)
@click.option(
    "--delivery-timeout-ms",
    type=click.IntRange(1),
    default=120_000,
    show_default=True,
    help="How long to try to write a batch.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="At most so many records a second.",
)
@asks_cluster
async def produce(
    session: Session,
    topic: str,
    files: Sequence[str],
    delimiter: str | None,
    key_separator: str | None,
    whole_file: bool,
    length_prefixed: bool,
    template: str | None,
    key: str | None,
    headers: Sequence[str],
    partition: int | None,
    timestamp: str | None,
    tombstone: bool,
    null: str | None,
    key_format: str,
    value_format: str,
    schema_id: int | None,
    key_schema_id: int | None,
    schema: Path | None,
    key_schema: Path | None,
    subject: str | None,
    key_subject: str | None,
    registry: str | None,
    registry_set: Sequence[str],
    compression: str,
    compression_level: int | None,
    acks: str,
    idempotence: bool,
    transactional_id: str | None,
    transaction_timeout_ms: int,
    linger_ms: int,
    batch_bytes: int,
    buffer_bytes: int,
    delivery_timeout_ms: int,
    rate: float | None,
) -> int | None:
    from ottla.cli.records.formats import SchemaChoice, encoder, registry_client
    from ottla.cli.records.producing import Producing
    from ottla.client.cluster_requests import ClusterRequests
    from ottla.client.records.transaction import Transaction
    from ottla.client.records.writer import RecordWriter, WriteSettings
    from ottla.config.sources import from_words, texts
    from ottla.protocol.compression import Codec

    cutter = _cutter(session.output.is_json, delimiter, key_separator, whole_file, length_prefixed, template)
    defaults = _defaults(topic, key, headers, partition, timestamp, tombstone, null)
    if transactional_id is not None and (acks != "all" or not idempotence):
        raise UsageError("a transaction needs --acks all and idempotence")
    _check_level(compression, compression_level)
    values = _format(value_format, schema_id, schema, "value")
    keys = _format(key_format, key_schema_id, key_schema, "key")
    settings = WriteSettings(
        acks=_ACKS[acks],
        codec=Codec[compression.upper()],
        level=compression_level,
        idempotent=idempotence and _ACKS[acks] == -1,
        delivery_timeout_ms=delivery_timeout_ms,
        buffer_bytes=buffer_bytes,
    )
    cluster = ClusterRequests(session.access)
    client = None
    if keys.has_schema or values.has_schema:
        client = registry_client(registry, texts(from_words(registry_set)))
    transaction = None
    if transactional_id is not None:
        transaction = Transaction(cluster, session.access, transactional_id, transaction_timeout_ms)
    writer = RecordWriter(cluster, session.access, settings, transaction)
    try:
        encode_key: Encode = await encoder(
            keys, client, SchemaChoice(key_subject or f"{topic}-key", key_schema_id, key_schema)
        )
        encode_value = await encoder(
            values, client, SchemaChoice(subject or f"{topic}-value", schema_id, schema)
        )
        producing = Producing(
            writer,
            defaults,
            encode_key,
            encode_value,
            formats_are_plain=keys is values is Format.BYTES,
            batch_bytes=batch_bytes,
            rate=rate,
        )
        run = _Run(session, writer, producing, transaction, topic)
        await run.write(list(files) or ["-"], cutter, linger_ms / 1_000, _read_bytes(batch_bytes), cluster)
    finally:
        await writer.close()
        if transaction is not None:
            transaction.close()
        if client is not None:
            await client.close()
        await cluster.close()
    return None


class _Run:
    """One run of the command, from the first byte of the input to the report."""

    def __init__(
        self,
        session: Session,
        writer: RecordWriter,
        producing: Any,
        transaction: Transaction | None,
        topic: str,
    ) -> None:
        self._session = session
        self._writer = writer
        self._producing = producing
        self._transaction = transaction
        self._topic = topic

    async def write(
        self, files: Sequence[str], cutter: Any, linger_seconds: float, read_bytes: int, cluster: Any
    ) -> None:
        """Write all of the input, and report. Raises UserError with how many records were written."""
        from ottla.cli.records.inputs import check_files
        from ottla.cli.records.topics import missing_topic
        from ottla.client.errors import NoSuchTopic

        check_files(files)
        try:
            await self._producing.prepare()
        except NoSuchTopic as missing:
            raise await missing_topic(cluster, missing, self._topic) from None
        await self._writer.start()
        began = time.monotonic()
        if files == ["-"] and is_terminal(sys.stdin):
            self._session.output.note("reading records from the terminal; Ctrl-D ends")
        try:
            await self._all_of(files, cutter, linger_seconds, read_bytes)
            if self._transaction is not None:
                await self._transaction.end(commit=True)
        except (UserError, OSError) as problem:
            raise await self._failed(problem) from None
        except asyncio.CancelledError:
            told = await self._give_up() or f"at least {_records(self._writer.written)} were written"
            self._session.output.warn(f"interrupted; {told}")
            raise
        self._report(time.monotonic() - began)

    async def _all_of(
        self, files: Sequence[str], cutter: Any, linger_seconds: float, read_bytes: int
    ) -> None:
        from ottla.cli.records.inputs import chunks, input_path
        from ottla.cli.records.producing import InputProblem
        from ottla.client.records.writer import RecordRefused

        # Sources of records are lines of their file; where there are several files, the error names it.
        name = ""
        try:
            async for placed in chunks(files, cutter, linger_seconds, read_bytes):
                name = f"{input_path(placed.file)} " if len(files) > 1 else ""
                await self._producing.add(placed.chunk, is_live=placed.is_live)
                if placed.chunk.problem is not None:
                    source, reason = placed.chunk.problem
                    raise InputProblem(reason, source)
                if not placed.is_live and len(files) > 1:
                    await self._producing.send_gathered()
            await self._producing.send_gathered()
            await self._writer.flush()
        except InputProblem as problem:
            await self._producing.send_gathered()
            await self._writer.flush()
            raise UserError(f"{name}line {problem.source}: {problem}") from None
        except RecordRefused as refused:
            raise UserError(f"{name}line {refused.source}: {refused}") from None

    async def _failed(self, problem: UserError | OSError) -> UserError:
        """The error with the number of records that are written all the same."""
        message = f"{problem.filename}: {problem.strerror}" if isinstance(problem, OSError) else str(problem)
        if self._transaction is not None:
            told = await self._give_up()
            return UserError(f"{message}; {told}")
        await self._writer.settle()
        count = self._writer.written
        return UserError(f"{message}; {_records(count)} {'was' if count == 1 else 'were'} written")

    async def _give_up(self) -> str:
        """Abort the transaction, if there is one; a clause that tells the outcome."""
        if self._transaction is None:
            return ""
        await self._writer.settle()
        try:
            await self._transaction.end(commit=False)
        except UserError as problem:
            return f"nothing is committed, but the transaction could not be aborted: {problem}"
        return "nothing was written, the transaction is aborted"

    def _report(self, seconds: float) -> None:
        output = self._session.output
        written = self._writer.written
        partitions = [
            {
                "topic": place.topic,
                "partition": place.partition,
                "written": tally.records,
                "first_offset": tally.first_offset,
                "last_offset": tally.last_offset,
            }
            for place, tally in sorted(self._writer.tallies.items())
        ]
        if output.is_quiet:
            output.line(str(written))
            return
        where = (
            f"{len(partitions)} partitions"
            if len(partitions) != 1
            else f"partition {partitions[0]['partition']}"
        )
        output.done(
            f"wrote {_records(written)} to {self._topic}"
            + (f", {where}, in {seconds:.2f} s" if written else ""),
            {
                "topic": self._topic,
                "written": written,
                "seconds": round(seconds, 3),
                "partitions": partitions,
            },
        )


def _read_bytes(batch_bytes: int) -> int:
    """How much to read at once: lines of ordinary size are then one batch, without being counted out."""
    return min(max(batch_bytes * 7 // 8, 64 << 10), 1 << 20)


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _cutter(
    is_json: bool,
    delimiter: str | None,
    key_separator: str | None,
    whole_file: bool,
    length_prefixed: bool,
    template: str | None,
) -> Any:
    """Makes the cutter of each file. Raises UsageError for options that don't go together."""
    from ottla.cli.records import escapes
    from ottla.cli.records.input_templates import InputTemplate
    from ottla.cli.records.inputs import JsonLines, Lines, Templated, WholeFile

    lines = delimiter is not None or key_separator is not None
    if sum((is_json, whole_file, length_prefixed, template is not None, lines)) > 1:
        raise UsageError(
            "give one of --json, --format, --whole-file, --length-prefixed, and --delimiter with "
            "--key-separator"
        )
    if is_json:
        return JsonLines
    if whole_file:
        return WholeFile
    if template is not None or length_prefixed:
        compiled = InputTemplate(LENGTH_PREFIXED if template is None else template)
        return lambda: Templated(compiled)
    ends = b"\n" if delimiter is None else escapes.delimiter(delimiter)
    separator = None if key_separator is None else escapes.delimiter(key_separator)
    return lambda: Lines(ends, separator)


def _defaults(
    topic: str,
    key: str | None,
    headers: Sequence[str],
    partition: int | None,
    timestamp: str | None,
    tombstone: bool,
    null: str | None,
) -> Defaults:
    from ottla.cli.records.escapes import literal
    from ottla.cli.records.places import parse_time
    from ottla.cli.records.producing import Defaults

    at = None if timestamp is None else parse_time(timestamp, time.time_ns() // 1_000_000)
    if at is not None and at < 0:
        raise UsageError(f"--timestamp {timestamp} is before 1970")
    return Defaults(
        topic,
        None if key is None else literal(key),
        tuple(map(_header, headers)),
        partition,
        at,
        tombstone,
        None if null is None else literal(null),
    )


def _header(text: str) -> tuple[str, bytes | None]:
    from ottla.cli.records.escapes import literal

    name, equals, value = text.partition("=")
    if not name:
        raise UsageError(f"--header {text!r} has no name: it is NAME=VALUE")
    return name, literal(value) if equals else None


def _format(name: str, schema_id: int | None, file: Path | None, part: str) -> Format:
    """The format; one that the schema has by itself, if an id or a file is given alone."""
    found = Format(name)
    if schema_id is not None and file is not None:
        raise UsageError(f"the schema of {part}s is given twice, by its id and as a file")
    if found in (Format.BYTES, Format.JSON) and (schema_id is not None or file is not None):
        if found is Format.JSON:
            raise UsageError(f"--{part}-format json has no schema; json_schema has one")
        return Format.AUTO
    return found


def _check_level(compression: str, level: int | None) -> None:
    if level is None:
        return
    ranges = {"gzip": (-1, 9), "lz4": (1, 17), "zstd": (-7, 22)}
    if compression not in ranges:
        raise UsageError(f"--compression {compression} has no levels")
    least, most = ranges[compression]
    if not least <= level <= most:
        raise UsageError(f"{compression} has the levels {least} to {most}")
