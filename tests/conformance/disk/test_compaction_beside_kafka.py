"""Compaction beside Apache Kafka's: its tester, its tools on our files, the same records compacted."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_batch import NewRecord, decode_records, encode_batch
from ottla.storage.checkpoints import read_offsets
from support.clients.wire import WireClient, wait_for
from support.java.java_tools import run_java
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster
from support.servers.ottla_broker import OttlaBroker
from support.storage.compaction import COMPACTED, clean, contents, end_transaction, files, headers, put
from support.storage.logs import NOW_MS, open_log

pytestmark = pytest.mark.java

Broker = OttlaBroker | ApacheKafka
StartOwn = Callable[..., AbstractContextManager[Broker]]

CLEANING = {
    "log.segment.bytes": "1048576",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "1000",
}
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "86400000",
}


@pytest.mark.long
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_log_compaction_tester(start_own: StartOwn, compression: str) -> None:
    with start_own(settings=CLEANING) as broker:
        run = run_java(
            "org.apache.kafka.tools.LogCompactionTester",
            *("--bootstrap-server", broker.bootstrap, "--messages", "100000", "--duplicates", "20"),
            *("--percent-deletes", "10", "--sleep", "5", "--compression-type", compression),
            timeout_s=240,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Data verification is completed" in run.stdout
    reduction = re.search(r"\((\d+)\.\d% reduction\)", run.stdout)
    assert reduction is not None and int(reduction[1]) > 0, run.stdout


def test_records_without_a_key_are_refused(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as client:
        client.create_topic(unique_name, config={"cleanup.policy": "compact"})
        records = [NewRecord(key, b"v", NOW_MS) for key in (b"k", None, b"", None)]

        answer = client.produce(unique_name, 0, encode_batch(records))

        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [error.batch_index for error in answer.record_errors] == [1, 3]
        assert client.read_batches(unique_name, 0) == []


# --- the same records on both -------------------------------------------------------------------------------


def write_the_same(client: WireClient, topic: str) -> int:
    """Batches of every codec with values, tombstones and keys of all lengths. Returns the end offset."""
    draw = random.Random(42)
    filler = draw.randbytes(2000)
    end = 0
    for number in range(900):
        records = []
        for _ in range(draw.randrange(1, 8)):
            which = draw.randrange(120)
            key = b"%d" % which if which % 3 else b"%d-" % which + b"k" * (which * 8)
            value = None if draw.random() < 0.15 else b"%d:" % number + filler[: draw.randrange(2000)]
            records.append(NewRecord(key, value, NOW_MS + number))
        batch = encode_batch(records, codec=Codec(number % 5))
        answer = client.produce(topic, 0, batch)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, end)
        end += len(records)
    return end


def survivors(broker: Broker, topic: str) -> dict[int, tuple[bytes | None, bytes | None]]:
    with WireClient.connect(broker.bootstrap) as client:
        return {
            record.offset: (record.key, record.value)
            for _, batch in client.read_batches(topic, 0)
            for record in decode_records(batch)
        }


def cleaned_up_to(log_directory: Path, topic: str) -> int:
    """Up to where the checkpoint says that the topic is clean."""
    return read_offsets(log_directory / "cleaner-offset-checkpoint").get((topic, 0), 0)


def active_segment(log_directory: Path, topic: str) -> int:
    return max(int(name[:20]) for name in files(log_directory / f"{topic}-0") if name.endswith(".log"))


@pytest.mark.slow
def test_apache_kafka_keeps_the_same_records(tmp_path: Path) -> None:
    outcome = []
    with (
        OttlaBroker.start(tmp_path / "ottla" / "logs", settings=CLEANING) as ottla,
        ApacheKafka.start(tmp_path / "kafka", settings=CLEANING) as kafka,
    ):
        for broker, logs in ((ottla, tmp_path / "ottla" / "logs"), (kafka, kafka.log_directory)):
            with WireClient.connect(broker.bootstrap) as client:
                client.create_topic("t", config=TOPIC_CONFIG)
                end = write_the_same(client, "t")
            active = active_segment(logs, "t")
            assert 0 < active < end
            wait_for(lambda logs=logs, active=active: cleaned_up_to(logs, "t") >= active, timeout_s=60)
            outcome.append((active, survivors(broker, "t")))

    ours, kafkas = outcome
    assert ours[0] == kafkas[0]
    assert ours[1] == kafkas[1]
    assert len(ours[1]) < 0.6 * end


@pytest.mark.slow
def test_each_reads_logs_that_the_other_has_cleaned(tmp_path: Path) -> None:
    """ottla cleans, Apache Kafka starts on its directory, cleans on, and gives it back."""
    logs = tmp_path / "logs"
    with OttlaBroker.start(logs, settings=CLEANING) as ottla, WireClient.connect(ottla.bootstrap) as client:
        client.create_topic("t", config=TOPIC_CONFIG)
        end = write_the_same(client, "t")
        wait_for(lambda: cleaned_up_to(logs, "t") >= active_segment(logs, "t"), timeout_s=60)
        ours = survivors(ottla, "t")
    assert len(ours) < 0.6 * end
    checkpoint = cleaned_up_to(logs, "t")

    with ApacheKafka.start(tmp_path, settings=CLEANING) as kafka:
        assert survivors(kafka, "t") == ours
        assert cleaned_up_to(logs, "t") >= checkpoint
        with WireClient.connect(kafka.bootstrap) as client:
            batch = encode_batch([NewRecord(b"again", b"x" * 900_000, NOW_MS)])
            for _ in range(4):
                assert client.produce("t", 0, batch).error_code == ErrorCode.NONE
        wait_for(lambda: cleaned_up_to(logs, "t") >= active_segment(logs, "t") > end, timeout_s=60)
        kafkas = survivors(kafka, "t")

    with OttlaBroker.start(logs, settings=CLEANING) as ottla:
        assert survivors(ottla, "t") == kafkas


# --- files --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cleaned_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with all results of cleaning: batches rebuilt and emptied, horizons, markers, a `.txnindex`."""
    log = open_log(tmp_path_factory.mktemp("data"), replace(COMPACTED, segment_bytes=8000))
    for number in range(300):
        put(
            log,
            [
                (b"%d" % ((number * 7 + at) % 90), None if (number + at) % 11 == 0 else b"x" * 60)
                for at in range(4)
            ],
            timestamp=NOW_MS + number,
            codec=Codec(number % 5),
        )
        if number % 20 == 0:
            options = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
            put(log, [(b"t%d" % number, b"y")], base_sequence=number // 20, **options)
            end_transaction(log, 7, committed=number % 40 == 0)
        if number == 10:  # superseded later: it stays empty, for its sequence
            put(log, [(b"1", b"z")], producer_id=9, producer_epoch=0, base_sequence=0)
    log.roll(NOW_MS)
    clean(log)
    kept = headers(log)
    assert any(header.record_count == 0 for header in kept) and any(
        header.delete_horizon_ms is not None for header in kept
    )
    assert len(contents(log)) < 200
    log.remove_deleted_files(NOW_MS + 10**9)
    log.close()
    return log.directory


def dump(directory: Path, suffix: str, *options: str) -> str:
    """The output of DumpLogSegments for the files with this suffix."""
    found = ",".join(str(path) for path in sorted(directory.glob(f"*{suffix}")))
    assert found
    run = run_java("org.apache.kafka.tools.DumpLogSegments", *options, "--files", found)
    assert run.returncode == 0 and "Exception" not in run.stderr, run.stderr
    return run.stdout


def test_kafkas_tool_finds_cleaned_segments_valid(cleaned_directory: Path) -> None:
    said = dump(cleaned_directory, ".log", "--deep-iteration", "--print-data-log")
    assert set(re.findall(r"isvalid: (\w+)", said)) == {"true"}
    assert "deleteHorizonMs: OptionalLong[" in said
    assert "endTxnMarker: ABORT" in said


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_kafkas_tool_finds_the_indexes_right(cleaned_directory: Path, suffix: str) -> None:
    for option in ("--verify-index-only", "--index-sanity-check"):
        said = dump(cleaned_directory, suffix, option)
        for complaint in ("Mismatches", "not found", "out of order"):
            assert complaint.lower() not in said.lower(), said


def test_kafkas_tool_reads_the_index_of_transactions(cleaned_directory: Path) -> None:
    said = dump(cleaned_directory, ".txnindex")
    assert len(re.findall(r"producerId: 7 firstOffset: \d+ lastOffset: \d+", said)) > 3
