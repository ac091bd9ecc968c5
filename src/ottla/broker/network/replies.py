"""An answer's bytes on the wire: size, header, body."""

from __future__ import annotations

from ottla.broker.network.connection import Buffers
from ottla.protocol.headers import encode_response, encode_response_parts
from ottla.protocol.schema import Message


def frame_reply(api_key: int, version: int, correlation_id: int, response: Message) -> Buffers:
    """`response` as one buffer that begins with its size."""
    payload = encode_response(api_key, version, correlation_id, response)
    return (len(payload).to_bytes(4, "big") + payload,)


def frame_reply_in_parts(api_key: int, version: int, correlation_id: int, response: Message) -> Buffers:
    """`response` as several buffers, its records among them as they are."""
    parts = encode_response_parts(api_key, version, correlation_id, response)
    return [sum(map(len, parts)).to_bytes(4, "big"), *parts]
