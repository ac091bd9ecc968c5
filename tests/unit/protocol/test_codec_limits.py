"""The decoder's limits on hostile and broken messages, case by case."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from ottla.protocol.codec import MAX_ELEMENTS, MAX_REQUEST_ELEMENTS, MAX_TAGGED_FIELDS
from ottla.protocol.errors import MalformedMessage, TooManyElements, UnsupportedApiVersion
from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest
from ottla.protocol.messages.produce_request import ProduceRequest
from ottla.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ottla.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from ottla.protocol.schema import Message
from ottla.protocol.wire import write_unsigned_varint

SMALL_PEAK_BYTES = 200_000
HUGE = b"\xff\xff\xff\xff\x0f"  # the varint of 2^32 - 1
TOO_LONG = b"\xff\xff\xff\xff\xff\x01"  # six bytes: 2^35 and more
PRODUCE_START = struct.pack(">hhi", -1, -1, 1000)  # no transactional id, acks, timeout
FETCH_WITHOUT_TOPICS = struct.pack(">iiiibii", -1, 500, 1, 1000, 0, 0, 0) + b"\x01\x01\x01"
PRODUCE_FLEXIBLE_START = b"\0" + struct.pack(">hi", -1, 1000)

BOMBS: list[tuple[str, str, type[Message], int, bytes]] = [
    ("array count 2^31-1", "topics has a wrong count", MetadataRequest, 1, struct.pack(">i", 2**31 - 1)),
    ("array count -2", "topics has a wrong count", MetadataRequest, 1, struct.pack(">i", -2)),
    ("null array where none may be", "topics has a wrong count", MetadataRequest, 0, struct.pack(">i", -1)),
    ("compact array count 2^32-2", "topics has a wrong count", MetadataRequest, 9, HUGE),
    (
        "compact array count above 32 bits",
        "a varint does not fit",
        MetadataRequest,
        9,
        b"\xff\xff\xff\xff\x1f",
    ),
    ("compact array count of six bytes", "a varint is longer", MetadataRequest, 9, TOO_LONG),
    ("compact array count without an end", "a varint is longer", MetadataRequest, 9, b"\xff" * 100),
    (
        "null compact array where none may be",
        "topic_data has a wrong count",
        ProduceRequest,
        9,
        PRODUCE_FLEXIBLE_START + b"\0",
    ),
    (
        "nested array count",
        "partition_data has a wrong count",
        ProduceRequest,
        3,
        PRODUCE_START + struct.pack(">ihi", 1, 0, 2**31 - 1),
    ),
    (
        "nested compact array count",
        "partition_data has a wrong count",
        ProduceRequest,
        9,
        PRODUCE_FLEXIBLE_START + b"\x02\x01" + HUGE,
    ),
    (
        "string length 32767",
        "mechanism has a wrong length",
        SaslHandshakeRequest,
        0,
        struct.pack(">h", 32767),
    ),
    ("string length -2", "mechanism has a wrong length", SaslHandshakeRequest, 0, struct.pack(">h", -2)),
    (
        "null string where none may be",
        "mechanism has a wrong length",
        SaslHandshakeRequest,
        0,
        struct.pack(">h", -1),
    ),
    (
        "string that is not UTF-8",
        "'utf-8' codec",
        SaslHandshakeRequest,
        0,
        struct.pack(">h", 2) + b"\xff\xfe",
    ),
    ("compact string length", "states_filter has a wrong length", ListGroupsRequest, 4, b"\x02" + HUGE),
    (
        "compact string above 32767 bytes",
        "states_filter has a wrong length",
        ListGroupsRequest,
        4,
        b"\x02\x81\x80\x02" + b"a" * 32768 + b"\0",
    ),
    (
        "bytes length 2^31-1",
        "auth_bytes has a wrong length",
        SaslAuthenticateRequest,
        0,
        struct.pack(">i", 2**31 - 1),
    ),
    ("bytes length -2", "auth_bytes has a wrong length", SaslAuthenticateRequest, 0, struct.pack(">i", -2)),
    ("compact bytes length", "auth_bytes has a wrong length", SaslAuthenticateRequest, 2, HUGE),
    (
        "records length 2^31-1",
        "records has a wrong length",
        ProduceRequest,
        3,
        PRODUCE_START + struct.pack(">ihiii", 1, 0, 1, 0, 2**31 - 1),
    ),
    ("count of tagged fields", "a wrong count of tagged fields", MetadataRequest, 9, b"\0\0\0\0" + HUGE),
    (
        "size of a tagged field",
        "tagged field 5 of 4294967295 bytes",
        MetadataRequest,
        9,
        b"\0\0\0\0\x01\x05" + HUGE,
    ),
    (
        "tagged field of six-byte size",
        "a varint is longer",
        MetadataRequest,
        9,
        b"\0\0\0\0\x01\x05" + TOO_LONG,
    ),
    (
        "tagged field that comes twice",
        "tagged field 5 comes twice",
        MetadataRequest,
        9,
        b"\0\0\0\0\x02\x05\x00\x05\x00",
    ),
    (
        "tagged field that is longer than its value",
        "cluster_id does not end where its size says",
        FetchRequest,
        12,
        FETCH_WITHOUT_TOPICS + b"\x01\x00\x03\x01",
    ),
    (
        "tagged field that is shorter than its value",
        "cluster_id does not end where its size says",
        FetchRequest,
        12,
        FETCH_WITHOUT_TOPICS + b"\x01\x00\x01\x02a",
    ),
]


@pytest.mark.parametrize(
    ("reason", "cls", "version", "data"), [pytest.param(*bomb[1:], id=bomb[0]) for bomb in BOMBS]
)
def test_a_wrong_length_is_refused_before_it_is_believed(
    reason: str, cls: type[Message], version: int, data: bytes
) -> None:
    # given: the decoder is compiled, so that only decoding takes memory
    cls.decode(cls().encode(version), version)

    # when: fewer bytes follow than the length says, by far
    tracemalloc.start()
    with pytest.raises(MalformedMessage) as refusal:
        cls.decode(data + bytes(64), version)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    # then: the error names place and reason, and hardly any memory was used
    assert str(refusal.value).startswith(f"{cls.NAME} v{version}: {reason}")
    assert peak < SMALL_PEAK_BYTES


def compact_length(count: int) -> bytes:
    """The three bytes of a compact array's length."""
    length = count + 1
    return bytes((length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14))


def test_a_request_of_more_than_a_quarter_of_a_million_elements_needs_a_caller_that_allows_them() -> None:
    # given: an array of the smallest elements there are, empty strings of one byte
    def message(count: int) -> bytes:
        return compact_length(count) + b"\x01" * count + b"\0"

    # then: the limit holds, however small each element is on the wire
    read = ListGroupsRequest.decode(message(MAX_REQUEST_ELEMENTS), 4)
    assert len(read.states_filter) == MAX_REQUEST_ELEMENTS
    with pytest.raises(TooManyElements, match="states_filter has more elements"):
        ListGroupsRequest.decode_prefix(message(MAX_REQUEST_ELEMENTS + 1), 4)
    read, _ = ListGroupsRequest.decode_prefix(message(MAX_ELEMENTS), 4, 0, MAX_ELEMENTS)
    assert len(read.states_filter) == MAX_ELEMENTS
    with pytest.raises(MalformedMessage, match="states_filter has a wrong count"):
        ListGroupsRequest.decode_prefix(message(MAX_ELEMENTS + 1), 4, 0, 2 * MAX_ELEMENTS)


def test_an_array_of_numbers_may_have_a_million_elements() -> None:
    # given: partitions of one topic, read in one go
    def message(count: int) -> bytes:
        return struct.pack(">h1sih1si", 1, b"g", 1, 1, b"t", count) + bytes(4 * count)

    # then
    read = OffsetFetchRequest.decode(message(MAX_ELEMENTS), 1)
    assert read.topics is not None
    assert len(read.topics[0].partition_indexes) == MAX_ELEMENTS
    with pytest.raises(MalformedMessage, match="partition_indexes has a wrong count"):
        OffsetFetchRequest.decode(message(MAX_ELEMENTS + 1), 1)


def test_ten_thousand_tagged_fields_are_read_and_not_one_more() -> None:
    # given: tags that no table knows, without a value
    def message(count: int) -> bytes:
        fields = b"".join(write_unsigned_varint(100 + tag) + b"\0" for tag in range(count))
        return b"\0\0\0\0" + write_unsigned_varint(count) + fields

    # then
    read = MetadataRequest.decode(message(MAX_TAGGED_FIELDS), 9)
    assert read.unknown_tagged_fields is not None
    assert len(read.unknown_tagged_fields) == MAX_TAGGED_FIELDS
    with pytest.raises(MalformedMessage, match="a wrong count of tagged fields"):
        MetadataRequest.decode(message(MAX_TAGGED_FIELDS + 1), 9)


def test_an_answer_may_have_a_million_elements_and_not_one_more() -> None:
    # given: the answers of real brokers, with names of two bytes each
    def message(count: int) -> bytes:
        return struct.pack(">hi", 0, count) + b"\0\0" * count

    # then
    assert len(SaslHandshakeResponse.decode(message(MAX_ELEMENTS), 1).mechanisms) == MAX_ELEMENTS
    with pytest.raises(MalformedMessage, match="mechanisms has a wrong count"):
        SaslHandshakeResponse.decode(message(MAX_ELEMENTS + 1), 1)


def test_an_error_message_that_quotes_too_much_is_cut_between_two_characters() -> None:
    # given: names have 32767 bytes, and so have the messages that quote them
    answer = ConsumerGroupHeartbeatResponse(error_code=42, error_message="no " + "é" * 16_383)

    # when
    read = ConsumerGroupHeartbeatResponse.decode(answer.encode(1), 1)

    # then
    assert read.error_message == "no " + "é" * 16_382
    with pytest.raises(ValueError, match="member_id is longer"):
        ConsumerGroupHeartbeatResponse(member_id="m" * 32_768).encode(1)


def test_many_small_arrays_share_one_limit() -> None:
    # given: topics with an empty partition array each: three bytes on the wire, two hundred in memory
    count = MAX_REQUEST_ELEMENTS + 1
    topics = compact_length(count) + b"\x01\x01\x00" * count

    # then
    with pytest.raises(TooManyElements, match="topic_data has more elements"):
        ProduceRequest.decode_prefix(PRODUCE_FLEXIBLE_START + topics + b"\0", 9)


def test_a_version_that_a_message_does_not_have() -> None:
    for version in (-1, 2, 14, 32767):
        with pytest.raises(UnsupportedApiVersion):
            ProduceRequest.decode(b"", version)
        with pytest.raises(UnsupportedApiVersion):
            ProduceRequest().encode(version)
