"""A disk that takes no more, aimed at one file after the other of a roll, a stop, a cleaning, a snapshot.

Room is left page by page, so that each file of an operation is once the first that does not fit. An error
names the file with its directory, no half-written file stays, nothing acknowledged is lost, and with room the
operation is done after all.

Beside Apache Kafka 4.3.1: Kafka takes a directory out of service at its first I/O error, whatever it was that
could not be written (an append, a producer snapshot, a cleaned segment), and halts with code 1 when that was
its only one. An ottla broker refuses the records that it can't write, goes on reading, leaves a cleaning or a
metadata snapshot for later, and ends with code 1 only for what it can't go on without (ARCHITECTURE.md, "What
is written before what is said"). Both have all that was acknowledged once there is room: the last test runs
on both.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_batch import NewRecord, decode_records, encode_batch
from support.clients.cluster_wire import alter_configs, describe_config
from support.clients.wire import BASE_TIMESTAMP_MS, ConnectionClosed, WireClient, batch, wait_for
from support.servers.apache_kafka import ApacheKafka
from support.servers.full_disk import (
    NO_CHECKPOINTS,
    PAGE_KIB,
    FullDisk,
    broker_on_a_disk,
    disk_lines,
    mounted_disk,
    needs_a_disk,
)
from support.servers.ottla_broker import OttlaBroker
from support.servers.processes import cleaning_processes

pytestmark = needs_a_disk

SEGMENT_BYTES = 1 << 20
LARGE_BYTES = 104_000
"""Ten values of this size nearly fill a segment."""
PRODUCER_ID = 7_000
TOPIC_RESOURCE = 2


class IdempotentProducer:
    """One producer's records of a topic's only partition, and which of them were acknowledged."""

    def __init__(self, client: WireClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.acknowledged: list[bytes] = []
        self._last = b""

    def send(self, value: bytes) -> str | None:
        """None if the record was taken, else what the broker said."""
        encoded = encode_batch(
            [NewRecord(b"key", value, int(time.time() * 1000))],  # an old one would expire the producer
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            base_sequence=len(self.acknowledged),
        )
        answer = self.client.produce(self.topic, 0, encoded)
        if answer.error_code:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR, answer
            return str(answer.error_message)
        assert answer.base_offset == len(self.acknowledged)
        self.acknowledged.append(value)
        self._last = encoded
        return None

    def check(self, client: WireClient) -> None:
        """All that was acknowledged is there, once, and the last batch is known for a duplicate."""
        self.client = client
        assert values_read(client, self.topic) == self.acknowledged
        again = client.produce(self.topic, 0, self._last)
        assert (again.error_code, again.base_offset) == (0, len(self.acknowledged) - 1)
        assert values_read(client, self.topic) == self.acknowledged


def values_read(client: WireClient, topic: str) -> list[bytes]:
    return [
        record.value or b"" for _, data in client.read_batches(topic, 0) for record in decode_records(data)
    ]


def file_without_room(said: str, directory: Path) -> str:
    """The name of the file that an error is about; the error says the whole path."""
    (path,) = re.findall(r"No space left on device: '([^']*)'", said)
    assert Path(path).parent == directory, said
    return Path(path).name


def said_by(broker: OttlaBroker) -> str:
    """All that a broker wrote."""
    return broker.server.log_path.read_text(encoding="utf-8")


def wait_until_said(broker: OttlaBroker, text: str, after: int) -> None:
    """Until a broker has written `text`, `after` so many characters."""
    wait_for(lambda: text in said_by(broker)[after:], timeout_s=60)


def unfinished_files(directory: Path) -> list[str]:
    return [
        path.name for path in directory.iterdir() if path.suffix in (".tmp", ".part", ".cleaned", ".swap")
    ]


def test_a_roll_that_finds_no_room_for_one_of_its_files_is_done_with_room(tmp_path: Path) -> None:
    with broker_on_a_disk(tmp_path) as (broker, disk):
        broker.server.start()
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("rolled", config={"segment.bytes": str(SEGMENT_BYTES)})
            producer = IdempotentProducer(client, "rolled")
            for _ in range(10):
                assert producer.send(os.urandom(LARGE_BYTES)) is None
            # when the next segment is due, and there is a page more wherever that gets no further
            refused_at: list[str] = []
            free_kib = 0
            small = os.urandom(random.randrange(8_500, 20_000))
            while True:
                disk.fill(free_kib)
                said = producer.send(small)
                if said is None:
                    break
                name = file_without_room(said, broker.data_dir / "rolled-0")
                free_kib += PAGE_KIB if name in refused_at else 0
                refused_at.append(name)
                assert unfinished_files(disk.outside / "data" / "rolled-0") == []
                assert values_read(client, "rolled") == producer.acknowledged
            # then each of its files was once in the way
            first = "00000000000000000000"
            assert {f"{first}.index", f"{first}.timeindex"} <= set(refused_at)
            assert {"00000000000000000010.snapshot.tmp", "00000000000000000010.log"} <= set(refused_at)
            producer.check(client)
        broker.kill()
        disk.make_room()
        broker.restart()
        with WireClient.connect(broker.bootstrap) as client:
            producer.check(client)
            assert producer.send(b"goes on") is None
        assert broker.stop() == 0


@pytest.mark.long
def test_a_stop_that_finds_no_room_for_a_snapshot_leaves_a_start_that_recovers(tmp_path: Path) -> None:
    with broker_on_a_disk(tmp_path) as (broker, disk):
        broker.server.start()
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("stopped")
            producer = IdempotentProducer(client, "stopped")
            assert producer.send(b"first") is None
        refused_at = set()
        for free_kib in itertools.count(0, PAGE_KIB):
            # when a stop has a page more each time
            disk.fill(free_kib)
            said_before = len(said_by(broker))
            code = broker.stop()
            said = said_by(broker)[said_before:]
            if code == 0:
                break
            # then it says which file it could not write, and a start with room has everything
            assert code == 1
            refused_at |= {Path(each).name for each in re.findall(r"on device: '([^']*)'", said)}
            disk_lines(said, broker.data_dir)
            disk.make_room()
            broker.server.start()
            with WireClient.connect(broker.bootstrap) as client:
                producer.check(client)
                assert producer.send(b"after a stop with %d KiB" % free_kib) is None
        assert any(name.endswith(".snapshot.tmp") for name in refused_at), refused_at
        broker.server.start()
        with WireClient.connect(broker.bootstrap) as client:
            producer.check(client)


def test_a_metadata_snapshot_that_finds_no_room_is_written_with_room(tmp_path: Path) -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "1"}
    with broker_on_a_disk(tmp_path, settings) as (broker, disk):
        broker.server.command = [*broker.server.command, "--log-level", "info"]
        broker.server.start()
        metadata = disk.outside / "data" / "__cluster_metadata-0"
        log = metadata / "00000000000000000000.log"
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("t")

            def change(retention_ms: int) -> None:
                config = {"retention.ms": str(retention_ms)}
                assert alter_configs(client, TOPIC_RESOURCE, "t", config) == ErrorCode.NONE

            # given room for metadata records, in the page that the log ends in, and for nothing else
            while log.stat().st_size % 4096 > 2000:
                change(1_000_000)
            wait_until_said(broker, "metadata snapshot written", 0)
            wait_for(lambda: unfinished_files(metadata) == [])
            disk.fill()
            for number in range(3):
                said_before = len(said_by(broker))
                change(2_000_000 + number)
                wait_until_said(broker, "metadata snapshot failed", said_before)
                # then the change holds, and nothing is left of the snapshot
                assert unfinished_files(metadata) == []
            lines = disk_lines(said_by(broker), broker.data_dir)
            for line in lines:
                assert file_without_room(line, broker.data_dir / metadata.name).endswith(".checkpoint.tmp")
            # when there is room
            disk.make_room()
            said_before = len(said_by(broker))
            change(3_000_000)
            wait_until_said(broker, "metadata snapshot written", said_before)
        broker.kill()
        broker.restart()
        with WireClient.connect(broker.bootstrap) as client:
            (config,) = describe_config(client, TOPIC_RESOURCE, "t", "retention.ms").configs
            assert config.value == "3000000"


# -- cleaning ----------------------------------------------------------------------------------------------

SLOW_CLEANER = {"log.cleaner.io.max.bytes.per.second": "1000000"}


def fill_for_the_cleaner(broker: OttlaBroker, disk: FullDisk, partition: Path, free_kib: int) -> None:
    """Leave so much room for the files of a cleaning that has made the first of them and written nothing."""
    while True:
        wait_for(lambda: any(partition.glob("*.cleaned")), timeout_s=60)
        with contextlib.suppress(ProcessLookupError, ValueError):
            (child,) = cleaning_processes(broker.pid)
            os.kill(child, signal.SIGSTOP)
            try:
                made = list(partition.glob("*.cleaned"))
                if len(made) == 1 and made[0].stat().st_size == 0:
                    disk.fill(free_kib)
                    return
            finally:
                os.kill(child, signal.SIGCONT)


@pytest.mark.long
def test_a_cleaning_that_finds_no_room_for_one_of_its_files_is_done_with_room(tmp_path: Path) -> None:
    keys = [b"%d" % random.randrange(4) for _ in range(10)]
    records = [(key, os.urandom(LARGE_BYTES)) for key in keys]
    latest = dict(records)
    with broker_on_a_disk(tmp_path, SLOW_CLEANER) as (broker, disk):
        broker.server.start()
        partition = disk.outside / "data" / "cleaned-0"

        def cleaned_values() -> list[bytes]:
            """All but the last, which lies in the active segment."""
            return values_read(client, "cleaned")[:-1]

        with WireClient.connect(broker.bootstrap) as client:
            config = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)}
            client.create_topic("cleaned", config={**config, "min.cleanable.dirty.ratio": "0.01"})
            batches = [encode_batch([NewRecord(key, value, BASE_TIMESTAMP_MS)]) for key, value in records]
            for each in batches:
                assert client.produce("cleaned", 0, each).error_code == 0
            last = encode_batch([NewRecord(b"other", os.urandom(LARGE_BYTES), BASE_TIMESTAMP_MS)])
            assert client.produce("cleaned", 0, last).error_code == 0
            survivors = sum(
                len(each)
                for each, record in zip(batches, records, strict=True)
                if record[1] in latest.values()
            )
            log_kib = -(-survivors // (PAGE_KIB * 1024)) * PAGE_KIB
            # when there is no room for the cleaned log, or only for a part of it, or for none of its indexes
            for free_kib, suffix in (
                (0, ".log.cleaned"),
                (random.randrange(PAGE_KIB, log_kib, PAGE_KIB), ".log.cleaned"),
                (log_kib, ".index.cleaned"),
                (log_kib + PAGE_KIB, ".timeindex.cleaned"),
            ):
                said_before = len(said_by(broker))
                fill_for_the_cleaner(broker, disk, partition, free_kib)
                wait_until_said(broker, "cleaning failed", said_before)
                # then the file is named, what was written of the others is gone, and the log is as it was
                said = said_by(broker)[said_before:]
                (line,) = disk_lines(said, broker.data_dir)[:1]
                assert file_without_room(line, broker.data_dir / "cleaned-0").endswith(suffix)
                assert cleaned_values() == [value for _, value in records]
                disk.make_room()
            # when there is room
            wait_for(lambda: sorted(cleaned_values()) == sorted(latest.values()), timeout_s=60)
            wait_for(lambda: unfinished_files(partition) == [])
        broker.kill()
        broker.restart()
        with WireClient.connect(broker.bootstrap) as client:
            assert sorted(cleaned_values()) == sorted(latest.values())
        assert broker.stop() == 0


# -- beside Apache Kafka -----------------------------------------------------------------------------------


def server_on(disk: FullDisk, kind: str, tmp_path: Path) -> OttlaBroker | ApacheKafka:
    """A server of this kind that is still to start, and whose directory is on the disk."""
    server: OttlaBroker | ApacheKafka
    if kind == "ottla":
        server = OttlaBroker.prepare(tmp_path / "disk" / "data", settings=NO_CHECKPOINTS)
    else:
        logs = tmp_path / "disk" / "data"
        server = ApacheKafka.prepare(tmp_path / "kafka", settings={**NO_CHECKPOINTS, "log.dirs": str(logs)})
        shutil.copytree(logs, disk.outside / "data")  # it was formatted below the mount point
    server.server.command = [*disk.enter, *server.server.command]
    return server


@pytest.mark.long
def test_a_full_disk_halts_kafka_and_refuses_writes_here_and_both_lose_nothing(
    cluster_kind: str, tmp_path: Path
) -> None:
    acknowledged: list[bytes] = []

    def send(client: WireClient) -> int:
        value = os.urandom(LARGE_BYTES)
        code: int = client.produce("full", 0, batch(value=value)).error_code
        acknowledged.extend([value] if code == 0 else [])
        return code

    with mounted_disk(tmp_path / "disk") as disk:
        server = server_on(disk, cluster_kind, tmp_path)
        server.server.start()
        try:
            with WireClient.connect(server.bootstrap) as client:
                client.create_topic("full")
                assert send(client) == 0
                disk.fill(free_kib=1000)
                if cluster_kind == "ottla":
                    codes = [send(client) for _ in range(20)]
                    assert codes[0] == 0 and codes[-1] == ErrorCode.KAFKA_STORAGE_ERROR
                    assert values_read(client, "full") == acknowledged
                else:
                    with contextlib.suppress(ConnectionClosed, OSError):
                        while True:
                            send(client)
            if cluster_kind == "ottla":
                server.kill()
            else:
                wait_for(lambda: not server.server.running)
                assert server.server.process.returncode == 1
                assert "No space left on device" in server.server.log_path.read_text(encoding="utf-8")
            disk.make_room()
            server.server.start()
            with WireClient.connect(server.bootstrap) as client:
                wait_for(lambda: client.topic_metadata("full").topics[0].partitions[0].leader_id >= 0)
                assert values_read(client, "full") == acknowledged
                assert send(client) == 0
                assert values_read(client, "full") == acknowledged
        finally:
            server.kill()
