"""A disk that takes no more: producers hear of it, and nothing that was acknowledged is lost."""

from __future__ import annotations

import resource
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
