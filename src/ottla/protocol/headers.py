"""Encodes and decodes the content of a frame: the header of a request or response, and the body.

A frame on a socket is a 4-byte size and this content; the owner of the socket handles the size. Request
headers have version 1, or 2 with tagged fields if the request is flexible; the client id keeps its 16-bit
length in both. Response headers have version 0, or 1 with tagged fields. Version 0 of the request header was
removed with ControlledShutdown.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ottla.protocol import apis, wire
from ottla.protocol.errors import MalformedMessage

if TYPE_CHECKING:
    from ottla.protocol.schema import Buffer, Message

COPY_LIMIT_BYTES = 4096

_REQUEST_START = struct.Struct(">hhih")
_INT32 = struct.Struct(">i")
_FLEXIBLE_RESPONSE_START = struct.Struct(">ix")


class RequestHeader(NamedTuple):
    """The fields at the beginning of every request. `client_id` is None if the client sent none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request and the position of its body.

    An unknown version is not an error here: the caller answers it (an ApiVersions request of any version has
    a readable header). For an API key that does not exist, the position is the one after the client id,
    because the rest of the header is unknown. Raises MalformedMessage.
    """
    try:
        key, version, correlation_id, length = _REQUEST_START.unpack_from(frame)
        position = _REQUEST_START.size
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(frame):
                raise MalformedMessage("a request header's client id is longer than the request")
            client_id = str(frame[position:end], "utf-8")
            position = end
        elif length != -1:
            raise MalformedMessage("a request header's client id has a negative length")
        if key in apis.APIS and apis.request_header_version(key, version) == 2:
            if frame[position]:
                position = _skip_tags(frame, position)
            else:
                position += 1
        return RequestHeader(key, version, correlation_id, client_id), position
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"a request header cannot be read: {error}") from error


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, request: Message
) -> bytes:
    """A request's header and body.

    Raises as `Message.encode`, and UnsupportedApiVersion for an API key that does not exist.
    """
    return b"".join(encode_request_parts(api_key, version, correlation_id, client_id, request))


def encode_request_parts(
    api_key: int, version: int, correlation_id: int, client_id: str | None, request: Message
) -> list[Buffer]:
    """As `encode_request`, but in pieces: records are among them, not copied."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    if length > wire.MAX_STRING_BYTES:
        raise ValueError("a client id has at most 32767 bytes")
    start = _REQUEST_START.pack(api_key, version, correlation_id, length)
    tags = b"\0" if apis.request_header_version(api_key, version) == 2 else b""
    return [start, name, tags, *request.encode_parts(version)]


def encode_response(api_key: int, version: int, correlation_id: int, response: Message) -> bytes:
    """A response's header and body.

    Raises as `Message.encode`, and UnsupportedApiVersion for an API key that does not exist.
    """
    return b"".join((_response_header(api_key, version, correlation_id), *response.encode_parts(version)))


def encode_response_parts(api_key: int, version: int, correlation_id: int, response: Message) -> list[Buffer]:
    """As `encode_response`, but in few pieces: large `records` are among them, not copied.

    A piece below COPY_LIMIT_BYTES is joined with its neighbours, which is cheaper than one more piece.
    """
    pieces: list[Buffer] = []
    small: list[Buffer] = [_response_header(api_key, version, correlation_id)]
    for part in response.encode_parts(version):
        if len(part) < COPY_LIMIT_BYTES:
            small.append(part)
        else:
            pieces.append(b"".join(small))
            pieces.append(part)
            small = []
    if small:
        pieces.append(b"".join(small))
    return pieces


def _response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    flexible = apis.response_header_version(api_key, version) == 1
    return (_FLEXIBLE_RESPONSE_START if flexible else _INT32).pack(correlation_id)


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Message]:
    """The correlation id and the body of a response.

    Raises MalformedMessage, and UnsupportedApiVersion for a key or version that does not exist. An
    ApiVersions response to a version that the broker does not support has version 0: decode it as that.
    """
    try:
        (correlation_id,) = _INT32.unpack_from(frame)
        position = _INT32.size
        if apis.response_header_version(api_key, version) == 1:
            position = _skip_tags(frame, position)
    except (struct.error, IndexError) as error:
        raise MalformedMessage(f"a response header cannot be read: {error}") from error
    return correlation_id, apis.response_class(api_key).decode(frame, version, position)


def _skip_tags(frame: Buffer, position: int) -> int:
    """The position after a tag section. No tagged field is defined for the headers of Kafka 4.4."""
    count, position = wire.read_unsigned_varint(frame, position)
    if count * 2 > len(frame) - position:
        raise MalformedMessage("a header's tagged fields are more than fit in it")
    return wire.read_tags(frame, position, count)[1]
