"""Whole requests and responses: header and body."""

from __future__ import annotations

import struct

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import MalformedMessage, UnsupportedApiVersion
from ottla.protocol.headers import (
    COPY_LIMIT_BYTES,
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    encode_response_parts,
)
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.request_header import RequestHeader as RequestHeaderMessage
from ottla.protocol.messages.sasl_handshake_request import SaslHandshakeRequest


@pytest.mark.parametrize("version", [0, 3, 4])
@pytest.mark.parametrize("client_id", [None, "", "grüße"])
def test_a_request_comes_back(version: int, client_id: str | None) -> None:
    # given
    request = (
        ApiVersionsRequest(client_software_name="ottla", client_software_version="1") if version else None
    )
    request = request or ApiVersionsRequest()

    # when
    frame = encode_request(ApiKey.API_VERSIONS, version, 7, client_id, request)

    # then
    header, position = decode_request_header(memoryview(frame))
    assert header == RequestHeader(ApiKey.API_VERSIONS, version, 7, client_id)
    assert ApiVersionsRequest.decode(frame, version, position) == request


def test_the_header_is_that_of_the_table() -> None:
    # given: the same header as a message of Kafka's own table
    table = RequestHeaderMessage(request_api_key=18, request_api_version=3, correlation_id=-5, client_id="me")

    # then
    frame = encode_request(ApiKey.API_VERSIONS, 3, -5, "me", ApiVersionsRequest())
    assert frame.startswith(table.encode(2))
    assert encode_request(ApiKey.SASL_HANDSHAKE, 0, -5, "me", SaslHandshakeRequest()).startswith(
        RequestHeaderMessage(request_api_key=17, correlation_id=-5, client_id="me").encode(1)
    )


def test_a_version_from_the_future_still_has_a_readable_header() -> None:
    frame = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 1234, 2) + b"me" + b"\0" + b"whatever"
    header, position = decode_request_header(frame)
    assert header == RequestHeader(ApiKey.API_VERSIONS, 99, 1234, "me")
    assert frame[position:] == b"whatever"


def test_a_key_that_does_not_exist_still_has_a_readable_header() -> None:
    header, _ = decode_request_header(struct.pack(">hhih", 4, 0, 55, -1))
    assert header == RequestHeader(4, 0, 55, None)


def test_tagged_fields_in_a_header_are_skipped() -> None:
    frame = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, -1) + b"\x02\x00\x03abc\x81\x01\x00" + b"body"
    assert frame[decode_request_header(frame)[1] :] == b"body"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        struct.pack(">hhi", 18, 3, 1),
        struct.pack(">hhih", 18, 3, 1, 100) + b"short",
        struct.pack(">hhih", 18, 0, 1, 100) + b"short",
        struct.pack(">hhih", 18, 0, 1, -2),
        struct.pack(">hhih", 18, 3, 1, -2),
        struct.pack(">hhih", 18, 3, 1, 2) + b"\xff\xfe\0",
        struct.pack(">hhih", 18, 3, 1, -1),
        struct.pack(">hhih", 18, 3, 1, -1) + b"\xff\xff\xff\xff\x0f",
        struct.pack(">hhih", 18, 3, 1, -1) + b"\x01\x00\x7f",
    ],
)
def test_a_malformed_header(frame: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_request_header(frame)


def test_a_response_comes_back() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=0, min_version=0, max_version=13)])
    for version in range(5):
        frame = encode_response(ApiKey.API_VERSIONS, version, 9, response)
        assert decode_response(ApiKey.API_VERSIONS, version, frame) == (9, response)


def test_a_flexible_response_has_a_flexible_header_except_for_api_versions() -> None:
    assert encode_response(ApiKey.FETCH, 12, 9, FetchResponse()).startswith(b"\0\0\0\x09\0")
    assert encode_response(ApiKey.FETCH, 11, 9, FetchResponse())[4:8] == bytes(4)  # at once the throttle time
    assert encode_response(ApiKey.API_VERSIONS, 3, 9, ApiVersionsResponse(error_code=35))[4:6] == b"\0\x23"


def test_records_are_not_copied_into_the_pieces_of_a_response() -> None:
    # given: partitions with many, few and no records
    many, few = memoryview(bytes(COPY_LIMIT_BYTES)), memoryview(bytes(COPY_LIMIT_BYTES - 1))
    partitions = [PartitionData(records=records) for records in (few, many, None, many, few)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])

    # when
    pieces = encode_response_parts(ApiKey.FETCH, 12, 1, response)

    # then: large records are pieces of their own, all other bytes are joined
    assert [piece is many for piece in pieces] == [False, True, False, True, False]
    assert b"".join(pieces) == encode_response(ApiKey.FETCH, 12, 1, response)


def test_unknown_keys_and_bad_responses_are_refused() -> None:
    with pytest.raises(UnsupportedApiVersion):
        encode_response(4, 0, 1, ApiVersionsResponse())
    with pytest.raises(UnsupportedApiVersion):
        encode_request(4, 0, 1, None, ApiVersionsRequest())
    for frame in (b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\x7f"):
        with pytest.raises(MalformedMessage):
            decode_response(ApiKey.FETCH, 12, frame)
    with pytest.raises(ValueError, match="client id"):
        encode_request(ApiKey.API_VERSIONS, 0, 1, "x" * 32768, ApiVersionsRequest())
