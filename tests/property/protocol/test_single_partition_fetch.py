"""The hand-written codec of a Fetch of one partition against the compiled codec."""

from __future__ import annotations

import uuid

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.protocol import single_partition_fetch
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.headers import encode_response
from ottla.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from ottla.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.single_partition_fetch import WantedPartition

VERSIONS = st.integers(13, 18)
INT8 = st.integers(-(2**7), 2**7 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
RACKS = st.text(st.characters(codec="utf-8"), max_size=150)
WANTED = st.builds(WantedPartition, st.uuids(), INT32, INT64, INT32, INT32, INT32, INT64)
# Lengths around the limits at which their prefix gets one more byte, or a piece is copied.
RECORDS = st.one_of(
    st.binary(max_size=300),
    st.sampled_from([126, 127, 128, 4095, 4096, 16382, 16383, 2097150, 2097151]).map(bytes),
)


def topic_of(wanted: WantedPartition) -> FetchTopic:
    named = {name: value for name, value in wanted._asdict().items() if name != "topic_id"}
    return FetchTopic(topic_id=wanted.topic_id, partitions=[FetchPartition(**named)])


@st.composite
def requests(draw: st.DrawFn) -> FetchRequest:
    wanted = draw(st.none() | WANTED)
    return FetchRequest(
        max_wait_ms=draw(INT32),
        min_bytes=draw(INT32),
        max_bytes=draw(INT32),
        isolation_level=draw(INT8),
        session_id=draw(INT32),
        session_epoch=draw(INT32),
        topics=[] if wanted is None else [topic_of(wanted)],
        forgotten_topics_data=[],
        rack_id=draw(RACKS),
    )


def agrees_with_the_codec(body: bytes, version: int) -> bool:
    """Check that both codecs decode the same; False if the hand-written one declines."""
    single = single_partition_fetch.decode(memoryview(body), version)
    if single is None:
        return False
    read = FetchRequest.decode(body, version)
    assert (read.replica_state.replica_id if version >= 15 else read.replica_id) == -1
    assert read.forgotten_topics_data == []
    assert read.cluster_id is None
    *fields, wanted = single
    assert fields == [getattr(read, name) for name in single._fields[:-1]]
    assert read.topics == ([] if wanted is None else [topic_of(wanted)])
    return True


@settings(deadline=None)
@given(VERSIONS, requests())
def test_a_consumers_request_is_read_as_the_codec_reads_it(version: int, request: FetchRequest) -> None:
    by_hand = agrees_with_the_codec(request.encode(version), version)
    assert by_hand == (len(request.rack_id.encode()) <= 126)


@settings(deadline=None)
@given(VERSIONS, requests(), st.data())
def test_damaged_bytes_are_decoded_only_if_the_codec_decodes_them(
    version: int, request: FetchRequest, data: st.DataObject
) -> None:
    body = bytearray(request.encode(version))
    for position in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=3)):
        body[position] = data.draw(st.sampled_from([0, 1, 2, 3, 127, 128, 255]))
    damaged = bytes(body[: data.draw(st.integers(0, len(body)))]) if data.draw(st.booleans()) else bytes(body)
    agrees_with_the_codec(damaged, version)


@settings(deadline=None)
@given(VERSIONS, st.binary(max_size=90))
@example(13, b"")
@example(18, bytes(21) + b"\x01\x01\x05\xff\xff\xff\xff\x00")
def test_no_bytes_at_all_make_it_raise(version: int, body: bytes) -> None:
    try:
        agrees_with_the_codec(body, version)
    except MalformedMessage as error:
        raise AssertionError("read by hand what the codec refuses") from error


def test_every_other_shape_is_left_to_the_codec() -> None:
    topic = topic_of(WantedPartition(uuid.UUID(int=7), 0, 5, 100, -1, -1, -1))
    topic_of_two = FetchTopic(topic_id=uuid.UUID(int=7), partitions=topic.partitions * 2)
    directory = FetchPartition(partition=0, replica_directory_id=uuid.UUID(int=3))
    shapes = {
        "a follower": FetchRequest(topics=[], replica_state=ReplicaState(replica_id=2, replica_epoch=1)),
        "two topics": FetchRequest(topics=[topic, topic]),
        "two partitions": FetchRequest(topics=[topic_of_two]),
        "no partition": FetchRequest(topics=[FetchTopic(topic_id=uuid.UUID(int=7), partitions=[])]),
        "a follower's partition": FetchRequest(
            topics=[FetchTopic(topic_id=uuid.UUID(int=7), partitions=[directory])]
        ),
        "a forgotten partition": FetchRequest(
            topics=[], forgotten_topics_data=[ForgottenTopic(topic_id=uuid.UUID(int=7), partitions=[1])]
        ),
        "a cluster": FetchRequest(topics=[], cluster_id="c"),
        "an unknown field": FetchRequest(topics=[], unknown_tagged_fields={9: b"x"}),
    }
    for what, message in shapes.items():
        assert single_partition_fetch.decode(memoryview(message.encode(17)), 17) is None, what
    follower = FetchRequest(topics=[], replica_id=2).encode(14)
    assert single_partition_fetch.decode(memoryview(follower), 14) is None
    plain = FetchRequest(topics=[]).encode(17)
    assert single_partition_fetch.decode(memoryview(plain + b"more"), 17) is None
    for position, counts in ((21, (0, 3)), (38, (0, 1, 3))):  # the counts of topics and partitions, one each
        miscounted = bytearray(FetchRequest(topics=[topic]).encode(17))
        assert single_partition_fetch.decode(memoryview(miscounted), 17) is not None
        for count in counts:
            miscounted[position] = count
            assert single_partition_fetch.decode(memoryview(miscounted), 17) is None
    by_name = FetchRequest(topics=[])
    for version in (4, 11, 12):
        assert single_partition_fetch.decode(memoryview(by_name.encode(version)), version) is None


@settings(deadline=None)
@given(VERSIONS, INT32, INT32, st.uuids(), INT32, st.tuples(INT64, INT64, INT64), RECORDS, st.booleans())
def test_an_answer_has_the_bytes_that_the_codec_writes(
    version: int,
    correlation_id: int,
    session_id: int,
    topic_id: uuid.UUID,
    index: int,
    offsets: tuple[int, int, int],
    records: bytes,
    read_committed: bool,
) -> None:
    data = PartitionData(
        partition_index=index,
        error_code=0,
        high_watermark=offsets[0],
        last_stable_offset=offsets[1],
        log_start_offset=offsets[2],
        aborted_transactions=[] if read_committed else None,
        records=records,
    )
    topic = FetchableTopicResponse(topic_id=topic_id, partitions=[data])
    response = FetchResponse(error_code=0, session_id=session_id, responses=[topic])
    expected = encode_response(ApiKey.FETCH, version, correlation_id, response)
    parts = single_partition_fetch.encode_answer(
        correlation_id, session_id, topic_id, index, offsets, records, no_transaction_aborted=read_committed
    )
    assert b"".join(parts) == len(expected).to_bytes(4, "big") + expected
    assert len(records) < 4096 or any(part is records for part in parts)


@settings(deadline=None)
@given(VERSIONS, INT32, INT32)
def test_an_empty_answer_has_the_bytes_that_the_codec_writes(
    version: int, correlation_id: int, session_id: int
) -> None:
    response = FetchResponse(error_code=0, session_id=session_id, responses=[])
    expected = encode_response(ApiKey.FETCH, version, correlation_id, response)
    frame = single_partition_fetch.encode_empty_answer(correlation_id, session_id)
    assert frame == len(expected).to_bytes(4, "big") + expected
