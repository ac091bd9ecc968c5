"""Apache Kafka and its tools read the files of `storage`, and `storage` reads those of Apache Kafka."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import encode_end_transaction_marker, parse_batch_header
from ottla.storage.log import Log, LogConfig
from ottla.storage.log_directory import LogDirectory
from support.java.java_tools import run_java
from support.servers.apache_kafka import CLUSTER_ID, ApacheKafka
from support.storage.logs import NOW_MS, append, open_log, read_all

CONFIG = LogConfig(segment_bytes=8_000, index_interval_bytes=300)

pytestmark = pytest.mark.java


def dump(*options: str, files: list[Path]) -> str:
    """The output of DumpLogSegments for these files."""
    run = run_java(
        "org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(str(file) for file in files)
    )
    assert run.returncode == 0, run.stderr
    assert "Exception" not in run.stderr, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A closed log with every codec, several segments, idempotent batches and a transaction."""
    log = open_log(tmp_path_factory.mktemp("data"), CONFIG)
    for number in range(200):
        append(
            log,
            *(b"value %d.%d " % (number, index) + b"." * 100 for index in range(3)),
            timestamps=[NOW_MS + 10 * number + (5, 1, 3)[index] for index in range(3)],
            codec=Codec(number % 5),
            leader_epoch=number // 50,
            **(
                {"producer_id": 4711, "producer_epoch": 2, "base_sequence": 3 * (number // 2)}
                if number % 2
                else {}
            ),
        )
    append(log, b"aborted", producer_id=4712, producer_epoch=0, base_sequence=0, transactional=True)
    marker = encode_end_transaction_marker(
        committed=False, coordinator_epoch=1, producer_id=4712, producer_epoch=0, timestamp=NOW_MS,
        base_offset=log.log_end_offset,
    )  # fmt: skip
    log.append(marker, [parse_batch_header(marker)], now_ms=NOW_MS)
    append(log, b"open", producer_id=4713, producer_epoch=5, base_sequence=0, transactional=True)
    log.close()
    return log


def files(log: Log, suffix: str) -> list[Path]:
    return sorted(log.directory.glob(f"*{suffix}"))


def test_every_batch_is_valid(log: Log) -> None:
    said = dump("--deep-iteration", "--print-data-log", files=files(log, ".log"))

    batches = re.findall(r"^baseOffset: (\d+) lastOffset: (\d+) .*isvalid: (\w+)$", said, re.MULTILINE)
    assert len(batches) == 203 and {valid for _, _, valid in batches} == {"true"}
    assert [int(base) for base, _, _ in batches] == [
        header.base_offset for header, _ in log.iterate_batches(0)
    ]
    payloads = re.findall(r"payload: (value \S+|aborted|open)", said)
    assert len(payloads) == 602 and payloads[:3] == ["value 0.0", "value 0.1", "value 0.2"]
    assert said.count("endTxnMarker: ABORT coordinatorEpoch: 1") == 1
    assert len(files(log, ".log")) > 3


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_agree_with_the_log(log: Log, suffix: str) -> None:
    for option in ("--verify-index-only", "--index-sanity-check"):
        said = dump(option, files=files(log, suffix))

        assert (
            "Mismatches" not in said
            and "not found" not in said.lower()
            and "out of order" not in said.lower()
        )
        if option == "--index-sanity-check":
            assert said.count("passed sanity check") == len(files(log, suffix))
    assert sum(file.stat().st_size for file in files(log, suffix)) > 300, "the indexes have entries to check"


def test_producer_snapshots_are_read(log: Log) -> None:
    said = dump(files=files(log, ".snapshot")[-1:])

    lines = dict(re.findall(r"^producerId: (\d+) (.*)$", said, re.MULTILINE))
    assert set(lines) == {"4711", "4712", "4713"}
    assert "producerEpoch: 2" in lines["4711"] and "lastSequence: 299" in lines["4711"]
    assert (
        "coordinatorEpoch: 1" in lines["4712"]
        and "currentTxnFirstOffset: OptionalLong.empty" in lines["4712"]
    )
    assert "currentTxnFirstOffset: OptionalLong[602]" in lines["4713"]


def test_a_recovered_log_is_as_valid(log: Log, tmp_path: Path) -> None:
    shutil.copytree(log.directory, tmp_path / "t-0")
    for file in (tmp_path / "t-0").glob("*index"):
        file.unlink()
    with (tmp_path / "t-0" / files(log, ".log")[-1].name).open("ab") as tail:
        tail.write(b"torn")

    recovered = open_log(tmp_path, CONFIG)
    recovered.close()

    for suffix in (".index", ".timeindex"):
        assert [file.read_bytes() for file in files(recovered, suffix)] == [
            file.read_bytes() for file in files(log, suffix)
        ]
    assert "isvalid: false" not in dump("--deep-iteration", files=files(recovered, ".log"))


# --- with Apache Kafka itself -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka.start(tmp_path_factory.mktemp("kafka")) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        settings = {"segment.bytes": "1048576", "index.interval.bytes": "512", "max.message.bytes": "100000"}
        made = admin.create_topics([NewTopic("t", num_partitions=1, replication_factor=1, config=settings)])
        made["t"].result(timeout=30)
        yield kafka


def produce(kafka: ApacheKafka, first: int, count: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "batch.num.messages": 50,
            "linger.ms": 5,
        }
    )
    for number in range(first, first + count):
        producer.produce("t", b"%d" % number, timestamp=NOW_MS + number)
    assert producer.flush(30) == 0


def open_kafkas_log(kafka: ApacheKafka) -> tuple[LogDirectory, Log]:
    directory = LogDirectory.open(kafka.log_directory, node_id=1, cluster_id=CLUSTER_ID)
    log = Log.open(
        directory.partition_path("t", 0),
        CONFIG,
        now_ms=NOW_MS,
        recovery_point=directory.read_recovery_points().get(("t", 0), 0),
        log_start_offset=directory.read_log_start_offsets().get(("t", 0), 0),
        clean_shutdown=directory.clean_shutdown,
    )
    return directory, log


def check(log: Log, count: int) -> None:
    assert [record.value for record in read_all(log)] == [b"%d" % number for number in range(count)]
    for number in range(0, count, count // 50):
        found = log.find_offset_by_timestamp(NOW_MS + number)
        assert found is not None and found.offset == number
    assert len(log.producers) > 0
    assert log.epoch_at(0) == 0
    assert log.topic_id is not None


@pytest.mark.slow
def test_kafka_and_storage_take_turns_on_one_directory(kafka: ApacheKafka) -> None:
    # Kafka writes and stops
    produce(kafka, 0, 5000)
    kafka.stop()
    directory, log = open_kafkas_log(kafka)
    assert directory.clean_shutdown and directory.broker_epoch > 0
    check(log, 5000)

    # storage goes on
    for number in range(5000, 6000, 10):
        append(
            log, *(b"%d" % (number + index) for index in range(10)),
            timestamps=[NOW_MS + number + index for index in range(10)], codec=Codec.SNAPPY,
        )  # fmt: skip
    log.close()
    directory.write_recovery_points({**directory.read_recovery_points(), ("t", 0): log.recovery_point})
    directory.close(clean=True, broker_epoch=directory.broker_epoch)

    # Kafka reads it all, writes more, and is killed
    kafka.restart()
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    values: list[bytes | None] = []
    while len(values) < 6000:
        messages = consumer.consume(1000, timeout=30)
        assert messages, f"only {len(values)} of 6000 records came"
        values += [message.value() for message in messages]
    assert values == [b"%d" % number for number in range(6000)]
    consumer.close()
    produce(kafka, 6000, 500)
    kafka.kill()

    # its indexes are preallocated now, and there is no marker
    index = directory.partition_path("t", 0) / f"{log.segment_base_offsets[-1]:020d}.index"
    assert index.stat().st_size > 1 << 20
    directory, log = open_kafkas_log(kafka)
    assert not directory.clean_shutdown
    check(log, 6500)
    directory.close(clean=False)
