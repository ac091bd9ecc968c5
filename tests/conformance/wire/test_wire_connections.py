"""A broker's answers to versions and bytes that no good client sends."""

from __future__ import annotations

import struct

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_response
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.metadata_request import MetadataRequest
from support.clients.wire import ConnectionClosed, WireClient
from support.servers.cluster import Cluster

SOFTWARE = {"client_software_name": "wire", "client_software_version": "1.0"}


def header(api_key: int, version: int) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, 4) + b"wire"


def ranges(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


def test_every_version_of_api_versions_tells_the_same_ranges(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        answers = [wire.call(ApiVersionsRequest(**SOFTWARE), version) for version in range(6)]
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    assert all(ranges(answer) == ranges(answers[5]) for answer in answers)


def test_ranges_are_kafkas_where_we_serve_the_api(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        served = ranges(wire.call(ApiVersionsRequest(**SOFTWARE), 4))
    # the ranges that Apache Kafka 4.4.0 gives
    kafka = {
        ApiKey.PRODUCE: (
            0,
            13,
        ),  # 0 to 2 are refused: librdkafka would not compress without them (KAFKA-18659)
        ApiKey.FETCH: (4, 18),
        ApiKey.LIST_OFFSETS: (1, 11),
        ApiKey.METADATA: (0, 13),
        ApiKey.OFFSET_COMMIT: (2, 10),
        ApiKey.OFFSET_FETCH: (1, 10),
        ApiKey.FIND_COORDINATOR: (0, 6),
        ApiKey.JOIN_GROUP: (0, 9),
        ApiKey.HEARTBEAT: (0, 4),
        ApiKey.LEAVE_GROUP: (0, 5),
        ApiKey.SYNC_GROUP: (0, 5),
        ApiKey.DESCRIBE_GROUPS: (0, 6),
        ApiKey.LIST_GROUPS: (0, 5),
        ApiKey.API_VERSIONS: (0, 5),
        ApiKey.CREATE_TOPICS: (2, 7),
        ApiKey.DELETE_TOPICS: (1, 6),
        ApiKey.DELETE_RECORDS: (0, 2),
        ApiKey.INIT_PRODUCER_ID: (0, 5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
        ApiKey.DESCRIBE_CONFIGS: (1, 4),
        ApiKey.ALTER_CONFIGS: (0, 2),
        ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
        ApiKey.CREATE_PARTITIONS: (0, 3),
        ApiKey.DELETE_GROUPS: (0, 3),
        ApiKey.TXN_OFFSET_COMMIT: (0, 6),
        ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 1),
        ApiKey.STREAMS_GROUP_DESCRIBE: (0, 1),
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: (0, 0),
        ApiKey.UNREGISTER_CONTROLLER: (0, 0),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
        ApiKey.OFFSET_DELETE: (0, 0),
        ApiKey.DESCRIBE_CLUSTER: (0, 2),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    }
    assert {key: served.get(key) for key in kafka} == kafka


def test_features_are_told_from_version_3(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        answer = wire.call(ApiVersionsRequest(**SOFTWARE), 4)
    supported = {feature.name: feature.max_version for feature in answer.supported_features}
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert supported["metadata.version"] == 33
    assert finalized["metadata.version"] == 33
    assert supported["eligible.leader.replicas.version"] == 1
    assert finalized["eligible.leader.replicas.version"] == 1
    assert finalized["kraft.version"] == 1
    assert answer.finalized_features_epoch >= 0


def test_api_versions_from_the_future_is_answered_in_version_0(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        # given: a version that nobody knows, with a body that nobody can read
        wire.send_frame(header(ApiKey.API_VERSIONS, 127) + b"\0\x01\x02\x03")
        # then
        correlation_id, answer = decode_response(ApiKey.API_VERSIONS, 0, wire.receive_frame())
        assert isinstance(answer, ApiVersionsResponse)
        assert (correlation_id, answer.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
        assert ranges(answer) == {ApiKey.API_VERSIONS: (0, 5)}
        # and the connection goes on
        assert wire.call(ApiVersionsRequest(**SOFTWARE), 4).error_code == ErrorCode.NONE


def test_a_client_that_means_another_node_is_told_to_bootstrap_again(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        described = wire.call(DescribeClusterRequest())
        (node_id,) = (broker.broker_id for broker in described.brokers)

        def answered(cluster_id: str | None, target: int, version: int = 5) -> ErrorCode:
            request = ApiVersionsRequest(**SOFTWARE, cluster_id=cluster_id, node_id=target)
            return ErrorCode(wire.call(request, version).error_code)

        assert answered(described.cluster_id, node_id) is ErrorCode.NONE
        assert answered(None, -1) is ErrorCode.NONE
        for other_cluster, other in (("other", node_id), (described.cluster_id, 77), ("", node_id)):
            assert answered(other_cluster, other) is ErrorCode.REBOOTSTRAP_REQUIRED
            assert answered(other_cluster, other, 4) is ErrorCode.NONE  # the fields are not there yet
        for half in ((None, node_id), (described.cluster_id, -1)):
            assert answered(*half) is ErrorCode.INVALID_REQUEST
        # and the connection goes on
        assert answered(described.cluster_id, node_id) is ErrorCode.NONE


def test_api_versions_with_a_bad_software_name(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        request = ApiVersionsRequest(client_software_name="no spaces", client_software_version="1.0")
        assert wire.call(request, 4).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(header(ApiKey.PRODUCE, 2) + struct.pack(">hii", 1, 1000, 0), id="produce-2"),
        pytest.param(header(ApiKey.PRODUCE, 14) + b"\0" + struct.pack(">hii", 1, 1000, 0), id="produce-14"),
        pytest.param(header(ApiKey.FETCH, 3) + struct.pack(">iiii", -1, 0, 0, 0), id="fetch-3"),
        pytest.param(header(999, 0), id="unknown-api"),
        pytest.param(header(ApiKey.METADATA, -1), id="negative-version"),
        pytest.param(header(ApiKey.METADATA, 1) + b"\x7f\xff\xff\xff", id="array-longer-than-the-frame"),
        pytest.param(header(ApiKey.METADATA, 1) + b"\0\0\0\x01\x7f", id="body-cut-off"),
        pytest.param(b"\xff" * 20, id="garbage"),
        pytest.param(b"\0\x12", id="half-a-header"),
        pytest.param(b"", id="empty-frame"),
    ],
)
def test_unreadable_request_closes_the_connection(cluster: Cluster, frame: bytes) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.send_frame(frame)
        with pytest.raises(ConnectionClosed):
            wire.receive_frame()
    # and only that one
    with WireClient.connect(cluster.bootstrap) as wire:
        assert wire.call(ApiVersionsRequest(**SOFTWARE), 4).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", -1), id="negative-size"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="two-gigabytes"),
        pytest.param(struct.pack(">i", 104_857_601), id="over-socket.request.max.bytes"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", id="http"),
    ],
)
def test_unreadable_size_closes_the_connection(cluster: Cluster, data: bytes) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.connection.sendall(data)
        with pytest.raises(ConnectionClosed):
            wire.receive_frame()


def test_requests_sent_at_once_are_answered_in_order(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        # given: a mix of quick and slower requests, all on their way before the first answer is read
        requests = [(MetadataRequest(topics=[]), 12), (ApiVersionsRequest(**SOFTWARE), 3)] * 20
        sent = [wire.send(request, version) for request, version in requests]
        for correlation_id, (request, version) in zip(sent, requests, strict=True):
            wire.receive(request, correlation_id, version)


def test_request_in_single_bytes(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        frame = header(ApiKey.API_VERSIONS, 0)
        for byte in struct.pack(">i", len(frame)) + frame:
            wire.connection.sendall(bytes([byte]))
        correlation_id, answer = decode_response(ApiKey.API_VERSIONS, 0, wire.receive_frame())
        assert (correlation_id, answer.error_code) == (7, ErrorCode.NONE)  # type: ignore[attr-defined]


def test_client_without_a_name(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap, client_id=None) as wire:
        assert wire.call(MetadataRequest(topics=[]), 12).brokers
