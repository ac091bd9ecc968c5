"""`ottla bench`: how fast a cluster takes records and gives them, in the words of Kafka's performance
tools.
"""

from __future__ import annotations

import asyncio
import random
import string
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import group
from ottla.cli.frame.completing import complete_topics
from ottla.cli.records.writer_options import batch_bytes_option, compression_option
from ottla.config.errors import UsageError, UserError

if TYPE_CHECKING:
    from ottla.client.cluster_requests import ClusterRequests, TopicPartition
    from ottla.client.records.partitioner import Partitioner
    from ottla.client.records.writer import RecordWriter

POOL_RECORDS: Final = 1_000
"""Different payloads that are sent again and again."""
REPORT_SECONDS: Final = 5.0
TICK_SECONDS: Final = 0.005
"""At a bounded rate, the records of so much time are sent at once."""
MAX_PAYLOAD_FILE_BYTES: Final = 256 << 20


@group(
    "bench",
    examples=[
        "ottla bench produce perf --num-records 1000000 --record-size 100",
        "ottla bench consume perf --messages 1000000",
        "ottla bench latency perf --messages 10000 --record-size 100",
    ],
    help="Measure a cluster as kafka-producer-perf-test, kafka-consumer-perf-test and kafka-e2e-latency do.",
)
def bench() -> None:
    pass


@bench.command(
    "produce",
    examples=[
        "ottla bench produce perf --num-records 1000000 --record-size 100",
        "ottla bench produce perf --num-records 60000 --record-size 1000 --throughput 1000 --acks 1",
        "ottla bench produce perf --num-records 100000 --payload-file orders.jsonl -z zstd --json",
    ],
    help="Write records as fast as the cluster takes them, or at a rate, and tell rates and latencies.",
)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--num-records",
    "-n",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="How many records to write.",
)
@click.option(
    "--record-size",
    "-s",
    type=click.IntRange(0, 64 << 20),
    metavar="BYTES",
    help="The size of each value. [default: 100]",
)
@click.option(
    "--payload-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Values are lines of this file, drawn at random.",
)
@click.option(
    "--payload-delimiter", metavar="TEXT", default=r"\n", help=r"Values in the file end so. [default: \n]"
)
@click.option(
    "--throughput",
    "-t",
    type=float,
    default=-1,
    show_default=True,
    metavar="N",
    help="At most so many records a second; -1 for no bound.",
)
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="Who must have a batch before it counts.",
)
@compression_option
@batch_bytes_option
@click.option(
    "--idempotence/--no-idempotence",
    default=True,
    help="Write each record once over retries (with acks=all).",
)
@asks_cluster
async def bench_produce(
    session: Session,
    topic: str,
    num_records: int,
    record_size: int | None,
    payload_file: Path | None,
    payload_delimiter: str,
    throughput: float,
    acks: str,
    compression: str,
    batch_bytes: int,
    idempotence: bool,
) -> None:
    from ottla.cli.records.bench_figures import (
        Latencies,
        producer_json,
        producer_total,
        producer_window,
    )
    from ottla.client.cluster_requests import ClusterRequests, TopicPartition
    from ottla.client.records.batches import Batch, column_batches
    from ottla.client.records.writer import RecordWriter, WriteSettings
    from ottla.protocol.compression import Codec

    if payload_file is not None and record_size is not None:
        raise UsageError("give --record-size or --payload-file, not both")
    pool = _payloads(payload_file, payload_delimiter, 100 if record_size is None else record_size)
    settings = WriteSettings(
        acks=-1 if acks == "all" else int(acks),
        codec=Codec[compression.upper()],
        idempotent=idempotence and acks == "all",
    )
    cluster = ClusterRequests(session.access)
    writer = RecordWriter(cluster, session.access, settings)
    output = session.output
    total, window = Latencies(), Latencies()
    sizes = {"total": 0, "window": 0}
    born: dict[int, float] = {}

    def written(batch: Batch) -> None:
        latency_ms = (time.perf_counter() - born.pop(id(batch))) * 1_000
        for latencies in (total, window):
            latencies.add(latency_ms, batch.count)
        size = sum(map(len, batch.values or ()))  # type: ignore[arg-type]
        sizes["total"] += size
        sizes["window"] += size

    try:
        partitioner = await _ready(cluster, writer, topic)
        writer.on_written = written
        began = reported = time.perf_counter()
        given = 0
        mean = max(sum(map(len, pool)) / len(pool), 1)
        at_once = max(1, int(batch_bytes / (mean + 12)))
        while given < num_records:
            count = min(at_once, num_records - given)
            if throughput > 0:
                count = min(count, max(1, round(throughput * TICK_SECONDS)))
                due = began + given / throughput
                await asyncio.sleep(max(due - time.perf_counter(), 0))
            values = (pool * (count // len(pool) + 2))[given % len(pool) :][:count]
            place = TopicPartition(topic, partitioner.sticky)
            now_ms = time.time_ns() // 1_000_000
            for batch in column_batches(
                place, None, values, range(given, given + count), now_ms, batch_bytes
            ):
                born[id(batch)] = time.perf_counter()
                await writer.add(batch)
            partitioner.move_on()
            given += count
            now = time.perf_counter()
            if now - reported >= REPORT_SECONDS and window.records and output.for_people:
                output.line(producer_window(window.records, sizes["window"], now - reported, window))
                window, sizes["window"], reported = Latencies(), 0, now
        await writer.flush()
        seconds = time.perf_counter() - began
    finally:
        await writer.close()
        await cluster.close()
    if output.is_json:
        output.json(producer_json(sizes["total"], seconds, total))
    else:
        output.line(producer_total(sizes["total"], seconds, total))


@bench.command(
    "consume",
    examples=[
        "ottla bench consume perf --messages 1000000",
        "ottla bench consume perf --messages 1000000 --group perf-readers --json",
    ],
    help="Read records from the start of a topic, and tell the rates.",
)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--messages",
    "-n",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="How many records to read.",
)
@click.option("--group", "-g", metavar="GROUP", help="Join this group first. [default: no group]")
@click.option(
    "--timeout-ms",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Stop when nothing comes for so long.",
)
@click.option("--hide-header", is_flag=True, help="Leave the line of titles out.")
@asks_cluster
async def bench_consume(
    session: Session, topic: str, messages: int, group: str | None, timeout_ms: int, hide_header: bool
) -> None:
    from ottla.cli.records.bench_figures import CONSUMER_HEADER, consumer_json, consumer_line
    from ottla.cli.records.topics import partitions_of
    from ottla.client.admin.partition_offsets import EARLIEST
    from ottla.client.cluster_requests import ClusterRequests
    from ottla.client.records.group import GroupMember
    from ottla.client.records.offset_lookup import offsets_at
    from ottla.client.records.reader import ReadSettings, RecordReader, Span

    cluster = ClusterRequests(session.access)
    output = session.output
    member = None
    try:
        partitions: Sequence[TopicPartition] = await partitions_of(
            cluster, [topic], is_pattern=False, chosen=None
        )
        began_ms, began = time.time_ns() // 1_000_000, time.perf_counter()
        if group is not None:
            member = GroupMember(cluster, session.access, group)
            partitions = await member.join([topic])
        joined = time.perf_counter() - began if group is not None else 0.0
        starts = await offsets_at(cluster, partitions, EARLIEST)
        spans = {partition: Span(offset) for partition, offset in starts.items()}
        reader = RecordReader(cluster, session.access, spans, ReadSettings(read_committed=False))
        try:
            records, size = await _read(reader, messages, timeout_ms / 1_000)
        finally:
            await reader.close()
        seconds = time.perf_counter() - began
    finally:
        if member is not None:
            await member.leave()
        await cluster.close()
    if records < messages:
        output.warn(f"{records} of {messages} records came: for {timeout_ms} ms there were no more")
        seconds = max(seconds - timeout_ms / 1_000, 1e-9)
    if output.is_json:
        output.json(consumer_json(records, size, seconds, joined))
        return
    if not hide_header and output.for_people:
        output.line(CONSUMER_HEADER)
    output.line(consumer_line(records, size, began_ms, seconds, joined))


@bench.command(
    "latency",
    examples=["ottla bench latency perf --messages 10000 --record-size 100 --acks all"],
    help="Write records one at a time and read each before the next: the time of both together.",
)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--messages",
    "-n",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="How many records to send.",
)
@click.option(
    "--record-size",
    "-s",
    type=click.IntRange(0, 64 << 20),
    default=100,
    show_default=True,
    metavar="BYTES",
    help="The size of each value.",
)
@click.option(
    "--acks",
    type=click.Choice(["all", "1"]),
    default="all",
    show_default=True,
    help="Who must have a record before it counts.",
)
@click.option(
    "--timeout-ms",
    type=click.IntRange(min=1),
    default=60_000,
    show_default=True,
    help="How long a record may take.",
)
@asks_cluster
async def bench_latency(
    session: Session, topic: str, messages: int, record_size: int, acks: str, timeout_ms: int
) -> None:
    from ottla.cli.records.bench_figures import Latencies, latency_json, latency_lines
    from ottla.client.cluster_requests import ClusterRequests, TopicPartition
    from ottla.client.records.batches import column_batches
    from ottla.client.records.offset_lookup import offsets_at
    from ottla.client.records.reader import ReadSettings, RecordReader, Span
    from ottla.client.records.writer import RecordWriter, WriteSettings

    cluster = ClusterRequests(session.access)
    settings = WriteSettings(acks=-1 if acks == "all" else 1, idempotent=acks == "all")
    writer = RecordWriter(cluster, session.access, settings)
    latencies = Latencies()
    output = session.output
    pool = _payloads(None, "", record_size)
    try:
        partitioner = await _ready(cluster, writer, topic)
        place = TopicPartition(topic, partitioner.sticky)
        end = (await offsets_at(cluster, [place]))[place]
        reader = RecordReader(
            cluster, session.access, {place: Span(end)}, ReadSettings(read_committed=False, max_wait_ms=500)
        )
        try:
            async with asyncio.timeout(timeout_ms / 1_000) as limit:
                for number in range(messages):
                    loop_time = asyncio.get_running_loop().time()
                    limit.reschedule(loop_time + timeout_ms / 1_000)
                    value = pool[number % len(pool)]
                    began = time.perf_counter()
                    for batch in column_batches(
                        place, None, [value], [number], time.time_ns() // 1_000_000, 1 << 20
                    ):
                        await writer.add(batch)
                    await writer.flush()
                    await _until_read(reader, value)
                    latencies.add((time.perf_counter() - began) * 1_000)
                    if number % 1_000 == 0 and output.for_people:
                        output.line(f"{number}\t{(time.perf_counter() - began) * 1_000:.4f}")
        except TimeoutError:
            raise UserError(f"record {latencies.records} did not come back within {timeout_ms} ms") from None
        finally:
            await reader.close()
    finally:
        await writer.close()
        await cluster.close()
    if output.is_json:
        output.json(latency_json(latencies))
        return
    for line in latency_lines(latencies):
        output.line(line)


async def _until_read(reader: object, value: bytes) -> None:
    """Return when the value has come."""
    from ottla.client.records.reader import RecordReader
    from ottla.protocol.record_batch import decode_records

    assert isinstance(reader, RecordReader)
    while True:
        part = await reader.next()
        assert part is not None
        for position, header in part.batches:
            if not header.is_control and any(
                record.value == value for record in decode_records(part.data, position)
            ):
                return


async def _read(reader: object, messages: int, timeout_seconds: float) -> tuple[int, int]:
    """Read so many records, or until none come any more; their number, and the bytes of keys and values."""
    from ottla.client.records.reader import RecordReader
    from ottla.protocol.record_batch import check_crc, records_payload
    from ottla.protocol.record_columns import decode_columns

    assert isinstance(reader, RecordReader)
    records = size = 0
    while records < messages:
        try:
            async with asyncio.timeout(timeout_seconds):
                part = await reader.next()
        except TimeoutError:
            break
        if part is None:
            break
        for position, header in part.batches:
            if header.is_control:
                continue
            check_crc(part.data, position, header)
            columns = decode_columns(records_payload(part.data, position, header), header)
            records += len(columns.values)
            size += sum(len(value) for value in columns.values if value is not None)
            size += sum(len(key) for key in columns.keys if key is not None)
    return records, size


async def _ready(cluster: ClusterRequests, writer: RecordWriter, topic: str) -> Partitioner:
    """Learn of the topic, and become a producer."""
    from ottla.cli.records.topics import missing_topic
    from ottla.client.errors import ClusterError
    from ottla.client.records.partitioner import Partitioner

    problems = await writer.leaders.learn([topic])
    if not writer.leaders.partition_count(topic):
        problem = problems.get(topic) or ClusterError(f"topic {topic} has no partitions")
        raise await missing_topic(cluster, problem, topic)
    await writer.start()
    return Partitioner(writer.leaders.partition_count(topic), writer.leaders.available(topic))


def _payloads(file: Path | None, delimiter: str, size: int) -> list[bytes]:
    """Values to send, in no order."""
    dice = random.Random()
    if file is None:
        letters = string.ascii_uppercase.encode()
        return [bytes(dice.choices(letters, k=size)) for _ in range(POOL_RECORDS if size < 1 << 16 else 10)]
    from ottla.cli.records import escapes

    if file.stat().st_size > MAX_PAYLOAD_FILE_BYTES:
        raise UserError(f"{file} is larger than {MAX_PAYLOAD_FILE_BYTES} bytes")
    lines = [line for line in file.read_bytes().split(escapes.delimiter(delimiter)) if line]
    if not lines:
        raise UserError(f"{file} has no payloads")
    return dice.choices(lines, k=max(len(lines), POOL_RECORDS))
