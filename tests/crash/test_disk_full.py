"""A disk that takes no more: producers hear of it, and nothing that was acknowledged is lost."""

from __future__ import annotations

import contextlib
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.record_batch import decode_records
from support.ottla_broker import OttlaBroker
from support.wire import ConnectionClosed, WireClient, batch

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


def test_a_broker_killed_on_a_full_disk_keeps_what_it_acknowledged(tmp_path: Path) -> None:
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
        # then nobody is told that the topic is there, and a broker with room again has the others
        assert answer is None or answer.topics[0].error_code != 0
        broker.kill()
        broker.restart()
        with WireClient.connect(broker.bootstrap) as client:
            assert {topic.name for topic in client.topic_metadata("before").topics} == {"before"}
            client.create_topic("refused")
            assert client.produce("refused", 0, batch()).base_offset == 0


# -- a real disk that fills up ----------------------------------------------------------------------------


def in_own_mounts(script: str) -> list[str]:
    """A command that runs `script` where its mounts are nobody else's, and end with it."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]


def may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(in_own_mounts("mount -t tmpfs none /mnt"), capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.skipif(not may_mount(), reason="needs to mount a tmpfs in a namespace of its own (as root)")
def test_a_full_disk_refuses_writes_reads_go_on_and_all_acknowledged_is_there_with_room_again(
    tmp_path: Path,
) -> None:
    data = tmp_path / "disk" / "data"
    data.parent.mkdir()
    with OttlaBroker.start(data) as broker:
        broker.stop()
        # given a disk of 8 MiB, which lives as long as this process
        holder = subprocess.Popen(
            in_own_mounts(
                f"mount -t tmpfs -o size=8m none {data.parent} && fallocate -l 1m {data.parent}/ballast && "
                "echo mounted && exec sleep 600"
            ),
            stdout=subprocess.PIPE,
        )
        try:
            assert holder.stdout is not None and holder.stdout.readline() == b"mounted\n"
            broker.server.command = ["nsenter", "--mount", f"--target={holder.pid}", *broker.server.command]
            broker.restart()
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
            disk = Path(f"/proc/{holder.pid}/root{data.parent}")
            (disk / "ballast").unlink()
            broker.restart()
            with WireClient.connect(broker.bootstrap) as client:
                # then all that was acknowledged is there, and more can be written
                assert values_read(client, "full") == acknowledged
                assert _produce(client, 100, acknowledged) == 0
                assert values_read(client, "full") == acknowledged
            broker.stop()
        finally:
            holder.kill()
            holder.wait()


def _produce(client: WireClient, number: int, acknowledged: list[bytes]) -> int:
    value = number.to_bytes(2) * 150_000
    code: int = client.produce("full", 0, batch(value=value)).error_code
    if code == 0:
        acknowledged.append(value)
    return code
