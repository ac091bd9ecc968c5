"""Structs and messages from their users' view: construction, equality, refusals of versions."""

from __future__ import annotations

import copy
import struct
import uuid

import pytest

from ottla.protocol.errors import MalformedMessage
from ottla.protocol.messages.describe_topic_partitions_request import Cursor, DescribeTopicPartitionsRequest
from ottla.protocol.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.list_offsets_request import ListOffsetsRequest
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from ottla.protocol.schema import ZERO_UUID, parse_versions


def test_fields_have_kafkas_defaults() -> None:
    request = JoinGroupRequest()
    assert (request.group_id, request.rebalance_timeout_ms, request.protocols) == ("", -1, [])
    assert request.group_instance_id is None
    assert MetadataRequestTopic().topic_id == ZERO_UUID
    assert MetadataRequest().allow_auto_topic_creation is True


def test_each_struct_has_its_own_lists() -> None:
    first, second = MetadataResponse(), MetadataResponse()
    first.topics.append(MetadataResponseTopic(name="a"))
    assert second.topics == []


def test_only_fields_of_the_table_exist() -> None:
    with pytest.raises(TypeError):
        ProduceRequest(ack=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        ProduceRequest(1)  # type: ignore[misc]
    with pytest.raises(AttributeError):
        ProduceRequest().ack = 1  # type: ignore[attr-defined]


def test_equality_and_representation() -> None:
    one = PartitionProduceData(index=1, records=b"x")
    assert one == PartitionProduceData(index=1, records=memoryview(b"x"))
    assert one != PartitionProduceData(index=2, records=b"x")
    assert one != TopicProduceData()
    assert one != "one"
    assert repr(one) == "PartitionProduceData(index=1, records=b'x')"
    one.unknown_tagged_fields = {5: b"?"}
    assert one != PartitionProduceData(index=1, records=b"x")
    assert repr(one).endswith("unknown_tagged_fields={5: b'?'})")
    with pytest.raises(TypeError):
        hash(one)


def test_the_shared_default_of_a_tagged_struct_takes_no_changes() -> None:
    # given
    partition = PartitionData()
    assert partition.current_leader is PartitionData().current_leader
    assert partition.current_leader == LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    assert LeaderIdAndEpoch() == partition.current_leader
    assert repr(partition.current_leader) == "LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)"

    # when, then
    with pytest.raises(TypeError, match="assign a new LeaderIdAndEpoch"):
        partition.current_leader.leader_id = 3
    copied = copy.deepcopy(partition)
    copied.current_leader = LeaderIdAndEpoch(leader_id=3, leader_epoch=1)
    assert copied != partition
    assert partition.current_leader.leader_id == -1


def test_a_tagged_field_is_written_only_when_it_is_set() -> None:
    def encoded(leader: LeaderIdAndEpoch | None) -> bytes:
        partition = PartitionData() if leader is None else PartitionData(current_leader=leader)
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])]).encode(16)

    assert encoded(LeaderIdAndEpoch()) == encoded(None)
    assert len(encoded(LeaderIdAndEpoch(leader_id=1))) == len(encoded(None)) + 2 + 9


def test_a_null_in_a_tagged_field_whose_default_is_not_null() -> None:
    # given: in Kafka's table the default is an empty struct, so null has to be written
    absent = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    empty = ConsumerGroupMemberMetadataValue()

    # then
    assert ConsumerGroupMemberMetadataValue.decode(absent.encode(0), 0).classic_member_metadata is None
    decoded = ConsumerGroupMemberMetadataValue.decode(empty.encode(0), 0)
    assert decoded.classic_member_metadata == ClassicMemberMetadata()
    assert absent.encode(0).endswith(b"\x01\x00\x01\x00")
    assert empty.encode(0).endswith(b"\0")


def test_a_field_that_the_version_lacks_is_refused_or_dropped() -> None:
    # given: `group_instance_id` may be dropped only where it is null
    named = JoinGroupRequest(group_instance_id="a")

    # then
    with pytest.raises(ValueError, match="JoinGroupRequest v4: group_instance_id is set"):
        named.encode(4)
    assert JoinGroupRequest.decode(named.encode(5), 5) == named
    assert JoinGroupRequest.decode(JoinGroupRequest(reason="why").encode(7), 7).reason is None  # ignorable


def test_null_where_a_version_cannot_say_it() -> None:
    everything = MetadataRequest(topics=None)
    assert MetadataRequest.decode(everything.encode(1), 1).topics is None
    with pytest.raises(ValueError, match="topics may not be null"):
        everything.encode(0)


def test_values_that_do_not_fit() -> None:
    cases = [
        (ListOffsetsRequest(replica_id=2**31), 1),
        (InitProducerIdRequest(transactional_id="x" * 32768), 0),
        (InitProducerIdRequest(transactional_id="x" * 32768), 5),
        (InitProducerIdRequest(transactional_id="\ud800"), 5),
        (InitProducerIdRequest(transaction_timeout_ms=None), 0),  # type: ignore[arg-type]
    ]
    for message, version in cases:
        with pytest.raises(ValueError):
            message.encode(version)


def test_unknown_tagged_fields_are_kept_in_order() -> None:
    # given: tags 9 and 300, out of order
    data = MetadataRequest(topics=None).encode(9)[:-1] + b"\x02\xac\x02\x01b\x09\x01a"

    # when
    request = MetadataRequest.decode(data, 9)

    # then
    assert request.unknown_tagged_fields == {300: b"b", 9: b"a"}
    assert request.encode(9).endswith(b"\x02\x09\x01a\xac\x02\x01b")
    with pytest.raises(ValueError, match="tagged fields are set"):
        request.encode(8)


def test_an_unknown_tag_may_not_be_that_of_a_known_field() -> None:
    response = FetchResponse(node_endpoints=[NodeEndpoint(node_id=1)], unknown_tagged_fields={0: b""})
    with pytest.raises(ValueError, match="tag of a known field"):
        response.encode(16)


def test_nullable_structs() -> None:
    request = DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="t", partition_index=3))
    assert DescribeTopicPartitionsRequest.decode(request.encode(0), 0) == request
    without = DescribeTopicPartitionsRequest(cursor=None)
    data = without.encode(0)
    assert DescribeTopicPartitionsRequest.decode(data, 0).cursor is None
    with pytest.raises(MalformedMessage, match="cursor has neither of the marks"):
        DescribeTopicPartitionsRequest.decode(data.replace(b"\xff", b"\x05"), 0)


def test_decoding_does_not_copy_the_records() -> None:
    # given
    partition = PartitionProduceData(index=0, records=b"batches")
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    frame = bytearray(request.encode(9))

    # when: the frame changes under the decoded message
    records = ProduceRequest.decode(memoryview(frame), 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    at = frame.index(b"batches")
    frame[at] = ord("B")

    # then
    assert records == b"Batches"


def test_uuids_are_on_the_wire_as_they_are() -> None:
    topic_id = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
    assert topic_id.bytes in request.encode(12)
    assert MetadataRequest.decode(request.encode(12), 12) == request


def test_versions() -> None:
    assert parse_versions("3+") == (3, 32767)
    assert parse_versions("0-2") == (0, 2)
    assert parse_versions("4") == (4, 4)
    first, last = parse_versions("none")
    assert first > last


def test_struct_errors_of_the_standard_library_do_not_come_through() -> None:
    with pytest.raises(MalformedMessage) as refusal:
        ProduceRequest.decode(b"\0", 3)
    assert isinstance(refusal.value.__cause__, struct.error)
