"""Envelopes: a client's request as a broker passes it on to the active controller, and the answer (KIP-590).

Inside is the request with its header just as the client could have sent it, beside it the sender and its
address: the principal as Apache Kafka's DefaultPrincipalData with its version in front, the address as 4 or
16 bytes. The answer comes back with its response header, so the broker can hand it to the client.
"""

from __future__ import annotations

import socket
from typing import NamedTuple

from ottla.protocol.apis import request_class, supports
from ottla.protocol.errors import (
    ErrorCode,
    InvalidRequest,
    PrincipalDeserializationFailure,
    ProtocolError,
    UnsupportedVersion,
)
from ottla.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from ottla.protocol.messages.envelope_request import EnvelopeRequest
from ottla.protocol.messages.envelope_response import EnvelopeResponse
from ottla.protocol.records.default_principal_data import DefaultPrincipalData
from ottla.protocol.schema import Message

PRINCIPAL_VERSION = 0
_VERSION_BYTES = 2


class Enveloped(NamedTuple):
    """A request that came in an envelope."""

    header: RequestHeader
    request: Message
    principal: str
    token_authenticated: bool
    client_host: str


def wrap_request(
    header: RequestHeader,
    request: Message,
    principal: str,
    client_host: str,
    *,
    token_authenticated: bool = False,
) -> EnvelopeRequest:
    """An envelope around a client's request. token_authenticated: a delegation token proved the principal."""
    return EnvelopeRequest(
        request_data=encode_request(
            header.api_key, header.api_version, header.correlation_id, header.client_id, request
        ),
        request_principal=encode_principal(principal, token_authenticated=token_authenticated),
        client_host_address=encode_address(client_host),
    )


def unwrap_request(envelope: EnvelopeRequest) -> Enveloped:
    """The request inside. Raises InvalidRequest, UnsupportedVersion or PrincipalDeserializationFailure."""
    data = memoryview(envelope.request_data)
    try:
        header, position = decode_request_header(data)
    except ProtocolError as error:
        raise InvalidRequest(f"the request in the envelope can't be read: {error}") from error
    if not supports(header.api_key, header.api_version):
        raise UnsupportedVersion(
            f"API key {header.api_key} version {header.api_version} in an envelope is not known"
        )
    try:
        request, _ = request_class(header.api_key).decode_prefix(data, header.api_version, position)
    except ProtocolError as error:
        raise InvalidRequest(f"the request in the envelope can't be read: {error}") from error
    principal = decode_principal(envelope.request_principal)
    return Enveloped(
        header,
        request,
        f"{principal.type}:{principal.name}",
        principal.token_authenticated,
        decode_address(envelope.client_host_address),
    )


def wrap_response(header: RequestHeader, response: Message) -> EnvelopeResponse:
    """An envelope around the answer to an enveloped request."""
    return EnvelopeResponse(
        error_code=ErrorCode.NONE,
        response_data=encode_response(header.api_key, header.api_version, header.correlation_id, response),
    )


def unwrap_response(header: RequestHeader, envelope: EnvelopeResponse) -> Message:
    """The answer inside; the envelope has no error. Raises ProtocolError."""
    _, response = decode_response(header.api_key, header.api_version, envelope.response_data or b"")
    return response


def encode_principal(principal: str, *, token_authenticated: bool = False) -> bytes:
    """`User:alice` as Apache Kafka's default principal builder writes it."""
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=token_authenticated)
    return PRINCIPAL_VERSION.to_bytes(_VERSION_BYTES, "big") + data.encode(PRINCIPAL_VERSION)


def decode_principal(data: bytes | None) -> DefaultPrincipalData:
    """The principal of an envelope. Raises PrincipalDeserializationFailure."""
    if data is None:
        raise PrincipalDeserializationFailure("the envelope names no principal")
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version != PRINCIPAL_VERSION:
        raise PrincipalDeserializationFailure(f"version {version} of a principal is not known")
    try:
        return DefaultPrincipalData.decode(bytes(data[_VERSION_BYTES:]), version)
    except ProtocolError as error:
        raise PrincipalDeserializationFailure(f"the principal can't be read: {error}") from error


def encode_address(host: str) -> bytes:
    """A numeric address as 4 or 16 bytes; any other text stands for this node itself."""
    numeric = host.partition("%")[0]
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_pton(family, numeric)
        except OSError:
            continue
    return socket.inet_pton(socket.AF_INET, "127.0.0.1")


def decode_address(data: bytes) -> str:
    """The address in an envelope. Raises InvalidRequest."""
    match len(data):
        case 4:
            return socket.inet_ntop(socket.AF_INET, bytes(data))
        case 16:
            return socket.inet_ntop(socket.AF_INET6, bytes(data))
        case length:
            raise InvalidRequest(f"a client address of {length} bytes")
