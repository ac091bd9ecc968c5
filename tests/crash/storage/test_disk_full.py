"""A full disk: producers get an error, and no acknowledged record is lost."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.record_batch import decode_records
from support.clients.wire import ConnectionClosed, WireClient, batch, wait_for
from support.servers.cluster import ServerError
from support.servers.full_disk import broker_on_a_disk, disk_lines, needs_a_disk
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs prlimit")

NO_LIMIT = resource.RLIM_INFINITY


def limit_file_size(broker: OttlaBroker, limit_bytes: int) -> None:
    """From now on no file of the broker grows past `limit_bytes`: a write ends early, the next one fails."""
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (limit_bytes, NO_LIMIT))


def values_read(client: WireClient, topic: str) -> list[bytes]:
    found = []
    for header, data in client.read_batches(topic, 0):
        records = decode_records(data)
        assert [record.offset for record in records] == list(range(header.base_offset, header.next_offset))
        found += [record.value or b"" for record in records]
    return found


def test_produce_fails_while_the_disk_is_full_and_goes_on_after(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker, WireClient.connect(broker.bootstrap) as client:
        # given
        client.create_topic("full")
        acknowledged = [b"before %d" % number for number in range(20)]
        for value in acknowledged:
            assert client.produce("full", 0, batch(value=value)).error_code == 0
        segment = broker.data_dir / "full-0" / "00000000000000000000.log"
        # when the next batch fits in part only
        limit_file_size(broker, segment.stat().st_size + 50)
        refused = [client.produce("full", 0, batch(value=b"refused")).error_code for _ in range(5)]
        # then
        assert refused == [ErrorCode.KAFKA_STORAGE_ERROR] * 5
        assert values_read(client, "full") == acknowledged
        # when there is room again
        limit_file_size(broker, NO_LIMIT)
        after = [b"after %d" % number for number in range(20)]
        for value in after:
            assert client.produce("full", 0, batch(value=value)).error_code == 0
        # then
        assert values_read(client, "full") == acknowledged + after
        broker.kill()
        broker.restart()
        with WireClient.connect(broker.bootstrap) as again:
            assert values_read(again, "full") == acknowledged + after


def test_a_broker_killed_on_a_full_disk_keeps_acknowledged_records(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        with WireClient.connect(broker.bootstrap) as client:
            # given
            client.create_topic("full")
            assert client.produce("full", 0, batch(10, value=b"kept")).error_code == 0
            segment = broker.data_dir / "full-0" / "00000000000000000000.log"
            limit_file_size(broker, segment.stat().st_size + 70)
            assert client.produce("full", 0, batch(10, value=b"lost")).error_code != 0
        # when
        broker.kill()
        broker.restart()
        # then
        with WireClient.connect(broker.bootstrap) as client:
            assert values_read(client, "full") == [b"kept"] * 10
            assert client.produce("full", 0, batch(10, value=b"new")).base_offset == 10


def test_topics_cannot_be_made_while_the_disk_is_full(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        with WireClient.connect(broker.bootstrap) as client:
            # given
            client.create_topic("before")
            metadata = broker.data_dir / "__cluster_metadata-0" / "00000000000000000000.log"
            limit_file_size(broker, metadata.stat().st_size + 40)
            # when
            new = CreatableTopic(name="refused", num_partitions=1, replication_factor=1)
            try:
                answer = client.call(CreateTopicsRequest(topics=[new], timeout_ms=5000))
            except ConnectionClosed:
                answer = None  # the broker may stop: its metadata can't go on
        # then no client is told that the topic exists, and a broker with room again has the others
        assert answer is None or answer.topics[0].error_code != 0
        broker.kill()
        broker.restart()
        with WireClient.connect(broker.bootstrap) as client:
            assert {topic.name for topic in client.topic_metadata("before").topics} == {"before"}
            client.create_topic("refused")
            assert client.produce("refused", 0, batch()).base_offset == 0


# -- a real disk that fills up ----------------------------------------------------------------------------


@needs_a_disk
def test_a_full_disk_refuses_writes_reads_go_on_and_all_acknowledged_is_there_with_room_again(
    tmp_path: Path,
) -> None:
    with broker_on_a_disk(tmp_path) as (broker, disk):
        # given a disk of 7 MiB
        disk.fill(free_kib=7 * 1024)
        broker.server.start()
        acknowledged: list[bytes] = []
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("full", config={"segment.bytes": "1048576"})
            # when more is written than it holds
            codes = [_produce(client, number, acknowledged) for number in range(40)]
            # then what does not fit is refused, and what was taken can be read
            assert set(codes) == {0, ErrorCode.KAFKA_STORAGE_ERROR}
            assert codes[-1] == ErrorCode.KAFKA_STORAGE_ERROR
            assert values_read(client, "full") == acknowledged
            new = CreatableTopic(name="refused", num_partitions=1, replication_factor=1)
            with contextlib.suppress(ConnectionClosed):  # the metadata may not be able to go on
                client.call(CreateTopicsRequest(topics=[new], timeout_ms=2000))
        # when the broker is killed there, and somebody makes room
        if broker.server.running:
            broker.kill()
        disk.make_room()
        broker.restart()
        with WireClient.connect(broker.bootstrap) as client:
            # then all that was acknowledged is there, and more can be written
            assert values_read(client, "full") == acknowledged
            assert _produce(client, 100, acknowledged) == 0
            assert values_read(client, "full") == acknowledged
        broker.stop()


def _produce(client: WireClient, number: int, acknowledged: list[bytes]) -> int:
    value = number.to_bytes(2) * 150_000
    code: int = client.produce("full", 0, batch(value=value)).error_code
    if code == 0:
        acknowledged.append(value)
    return code


def refused_start(broker: OttlaBroker) -> str:
    """The message of a start that must not succeed."""
    said = subprocess.run(
        broker.server.command, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **broker.server.environment},
    )  # fmt: skip
    assert said.returncode == 1, said
    return said.stdout + said.stderr


@needs_a_disk
@pytest.mark.parametrize("free_kib", [0, 4, 8, 16, 24])
def test_a_directory_that_a_full_disk_did_not_let_be_made_is_made_with_room(
    tmp_path: Path, free_kib: int
) -> None:
    with broker_on_a_disk(tmp_path) as (broker, disk):
        disk.fill(free_kib)
        disk_lines(refused_start(broker), broker.data_dir)
        disk.make_room()
        broker.server.start()
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("made")
            assert client.produce("made", 0, batch()).base_offset == 0
        assert broker.stop() == 0


@pytest.mark.long
@needs_a_disk
@pytest.mark.parametrize("ending", ["stopped", "killed", "by itself"])
def test_all_that_a_broker_writes_meets_a_full_disk(tmp_path: Path, ending: str) -> None:
    with broker_on_a_disk(tmp_path) as (broker, disk):
        broker.server.start()
        acknowledged: list[bytes] = []
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("full", config={"segment.bytes": str(1 << 20)})
            compact = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
            client.create_topic("compacted", config=compact)
            wait_for(lambda: _commit(client, 1) == 0)
            for number in range(10):
                assert _produce(client, number, acknowledged) == 0
                assert client.produce("compacted", 0, batch(value=bytes(2000))).error_code == 0
            # when the disk is full
            disk.fill()
            codes = set()
            with contextlib.suppress(
                ConnectionClosed, OSError
            ):  # it may end, as it can't go on without its checkpoints
                for number in range(10, 12):
                    codes.add(_produce(client, number, acknowledged))
                    codes.add(_commit(client, number))
                    partition = DeleteRecordsPartition(partition_index=0, offset=1)
                    topic = DeleteRecordsTopic(name="compacted", partitions=[partition])
                    client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=1000))
                    if ending == "by itself":  # the metadata is committed and can't be applied here
                        new = CreatableTopic(name=f"new-{number}", num_partitions=1, replication_factor=1)
                        client.call(CreateTopicsRequest(topics=[new], timeout_ms=1000))
            # then a client got an error
            assert codes - {0}
        match ending:
            case "stopped":
                assert broker.stop() == 1
            case "killed":
                broker.kill()
            case _:
                wait_for(lambda: not broker.server.running)
                assert broker.server.process.returncode == 1
        # and a start on the full disk says where, or goes on
        with contextlib.suppress(ServerError):
            broker.server.start()
            broker.kill()
        disk_lines(broker.server.log_path.read_text(encoding="utf-8"), broker.data_dir)
        # when there is room
        disk.make_room()
        broker.server.start()
        # then all that was acknowledged is there, and everything goes on
        with WireClient.connect(broker.bootstrap) as client:
            assert values_read(client, "full") == acknowledged
            assert _produce(client, 99, acknowledged) == 0
            assert values_read(client, "full") == acknowledged
            wait_for(lambda: _commit(client, 100) == 0)
            client.create_topic("after")
        assert broker.stop() == 0


def _commit(client: WireClient, offset: int) -> int:
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
    if client.call(find).coordinators[0].error_code:
        return -1
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="full", partitions=[partition])
    answer = client.call(OffsetCommitRequest(group_id="group", topics=[topic]), 8)
    code: int = answer.topics[0].partitions[0].error_code
    return code
