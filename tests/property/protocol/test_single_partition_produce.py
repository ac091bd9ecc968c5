"""The hand-written codec of a Produce of one partition against the compiled codec."""

from __future__ import annotations

import uuid

from hypothesis import example, given
from hypothesis import strategies as st

from ottla.protocol import single_partition_produce
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.headers import encode_response
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

VERSIONS = st.integers(9, 13)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ACKS = st.integers(-(2**15), 2**15 - 1)
NAMES = st.text(st.characters(codec="utf-8"), max_size=40)
# Lengths around the limits at which their prefix gets one more byte.
RECORDS = st.one_of(
    st.binary(max_size=300),
    st.sampled_from([126, 127, 128, 16381, 16382, 16383, 16384, 2097149, 2097150, 2097151, 2097152]).map(
        bytes
    ),
)


def request(
    version: int, acks: int, topic: str | uuid.UUID, index: int, records: bytes | None
) -> ProduceRequest:
    topic_data = TopicProduceData(partition_data=[PartitionProduceData(index=index, records=records)])
    if isinstance(topic, uuid.UUID):
        topic_data.topic_id = topic
    else:
        topic_data.name = topic
    return ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[topic_data])


TIMEOUT_MS = 30_000


@given(VERSIONS, ACKS, NAMES, st.uuids(), INT32, RECORDS)
@example(13, 1, "", uuid.UUID(int=0), 0, b"")
@example(13, 1, "", uuid.UUID(int=0), 0, bytes(22) + b"\x10")
@example(13, 1, "", uuid.UUID(int=0), 0, bytes(22))
def test_one_partition_is_read_as_the_codec_reads_it(
    version: int, acks: int, name: str, topic_id: uuid.UUID, index: int, records: bytes
) -> None:
    topic = topic_id if version >= 13 else name
    body = request(version, acks, topic, index, records).encode(version)
    single = single_partition_produce.decode(memoryview(body), version)
    transactional = len(records) > 22 and records[22] & 0x10
    if len(records) > 2**21 - 2 or (version < 13 and len(name.encode()) > 126) or transactional:
        assert single is None
    else:
        assert single == (acks, topic, index, records, TIMEOUT_MS)


def agrees_with_the_codec(body: bytes, version: int) -> bool:
    """Check that both codecs decode the same; False if the hand-written one declines."""
    single = single_partition_produce.decode(memoryview(body), version)
    if single is None:
        return False
    read = ProduceRequest.decode(body, version)
    (topic_data,) = read.topic_data
    (data,) = topic_data.partition_data
    topic = topic_data.topic_id if version >= 13 else topic_data.name
    assert read.transactional_id is None
    assert single == (read.acks, topic, data.index, data.records, read.timeout_ms)
    return True


@given(VERSIONS, NAMES, st.binary(max_size=300), st.data())
def test_damaged_bytes_are_decoded_only_if_the_codec_decodes_them(
    version: int, name: str, records: bytes, data: st.DataObject
) -> None:
    topic = uuid.UUID(int=7) if version >= 13 else name
    body = bytearray(request(version, 1, topic, 0, records).encode(version))
    for position in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=3)):
        body[position] = data.draw(st.sampled_from([0, 1, 2, 3, 127, 128, 255]))
    damaged = bytes(body[: data.draw(st.integers(0, len(body)))]) if data.draw(st.booleans()) else bytes(body)
    agrees_with_the_codec(damaged, version)


@given(VERSIONS, st.binary(max_size=80))
def test_no_bytes_at_all_make_it_raise(version: int, body: bytes) -> None:
    try:
        agrees_with_the_codec(body, version)
    except MalformedMessage as error:
        raise AssertionError("read by hand what the codec refuses") from error


def test_every_other_shape_is_left_to_the_codec() -> None:
    one = PartitionProduceData(index=0, records=b"r")
    shapes = {
        "a transaction": ProduceRequest(
            transactional_id="t", topic_data=[TopicProduceData(name="a", partition_data=[one])]
        ),
        "no topic": ProduceRequest(topic_data=[]),
        "two topics": ProduceRequest(
            topic_data=[TopicProduceData(name=name, partition_data=[one]) for name in ("a", "b")]
        ),
        "no partition": ProduceRequest(topic_data=[TopicProduceData(name="a", partition_data=[])]),
        "two partitions": ProduceRequest(topic_data=[TopicProduceData(name="a", partition_data=[one, one])]),
        "no records": request(9, 1, "a", 0, None),
        "a tagged field": ProduceRequest(
            topic_data=[TopicProduceData(name="a", partition_data=[one])], unknown_tagged_fields={5: b"x"}
        ),
    }
    for what, message in shapes.items():
        assert single_partition_produce.decode(memoryview(message.encode(12)), 12) is None, what
    plain = request(12, 1, "a", 0, b"r")
    assert single_partition_produce.decode(memoryview(plain.encode(12) + b"more"), 12) is None
    for version in (3, 7, 8):
        assert single_partition_produce.decode(memoryview(plain.encode(version)), version) is None


@given(VERSIONS, NAMES, st.uuids(), INT32, INT32, INT64, INT64, INT64)
def test_an_answer_has_the_bytes_that_the_codec_writes(
    version: int,
    name: str,
    topic_id: uuid.UUID,
    index: int,
    correlation_id: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> None:
    partition = PartitionProduceResponse(
        index=index,
        error_code=0,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    topic_response = TopicProduceResponse(partition_responses=[partition])
    topic: str | uuid.UUID
    if version >= 13:
        topic = topic_response.topic_id = topic_id
    else:
        topic = topic_response.name = name[:31]
    response = ProduceResponse(responses=[topic_response])
    expected = encode_response(ApiKey.PRODUCE, version, correlation_id, response)
    frame = single_partition_produce.encode_answer(
        topic, index, correlation_id, base_offset, log_append_time_ms, log_start_offset
    )
    assert frame == len(expected).to_bytes(4, "big") + expected
