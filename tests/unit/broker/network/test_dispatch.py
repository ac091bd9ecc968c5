"""A request means the same whatever its connection sent before, though a known header is not decoded anew."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from ottla.broker.network.connection import CloseConnection
from ottla.broker.network.context import RequestContext, Session
from ottla.broker.network.dispatch import MOST_KNOWN_BYTES, Dispatcher
from ottla.protocol.apis import ApiKey, advertised_versions
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.wire import write_unsigned_varint

RAW = (ApiKey.PRODUCE, ApiKey.FETCH)
CLIENT_IDS = [None, "", "a", "b", "rdkafka", "ä" * 7, "x" * 128, "y" * (MOST_KNOWN_BYTES + 1)]
SEED = 20_261_123


class Handlers:
    """The two raw handlers, which answer with the context and the body that they are given."""

    apis = RAW
    loaded: ClassVar[dict[int, Any]] = {}

    def __init__(self) -> None:
        self.seen: list[tuple[RequestContext, bytes]] = []
        self.loaded_raw = {int(key): self._take for key in RAW}

    def _take(self, node: object, context: RequestContext, body: memoryview) -> None:
        self.seen.append((context, bytes(body)))

    def load(self, key: int) -> None: ...

    def handler(self, key: int) -> Any: ...


def frame_of(
    key: int, version: int, correlation_id: int, client_id: str | None, tags: bytes, body: bytes
) -> bytes:
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    start = b"".join(
        value.to_bytes(size, "big", signed=True)
        for value, size in ((key, 2), (version, 2), (correlation_id, 4), (length, 2))
    )
    return start + name + tags + body


def tags_of(draw: random.Random) -> bytes:
    content = bytearray()
    numbers = sorted(draw.sample(range(100), draw.choice([0, 0, 0, 1, 2])))
    content += write_unsigned_varint(len(numbers))
    for number in numbers:
        value = draw.randbytes(draw.randrange(5))
        content += write_unsigned_varint(number) + write_unsigned_varint(len(value)) + value
    return bytes(content)


def flexible(key: ApiKey, version: int) -> bool:
    return version >= {ApiKey.PRODUCE: 9, ApiKey.FETCH: 12}[key]


def served(
    handlers: Handlers, session: Session, frame: bytes
) -> tuple[tuple[int, int, int, str | None], bytes]:
    Dispatcher(SimpleNamespace(), handlers)(SimpleNamespace(session=session), memoryview(frame))
    context, body = handlers.seen.pop()
    assert context.session is session
    return context[:4], body


def test_every_request_of_a_connection_has_its_own_header() -> None:
    draw = random.Random(SEED)
    session, handlers = Session("client", "PLAINTEXT"), Handlers()
    # few different headers, so that the same one often comes twice, and bodies that look like headers
    headers = []
    for _ in range(12):
        key = draw.choice(RAW)
        version = draw.randint(*advertised_versions(key))
        tags = tags_of(draw) if flexible(key, version) else b""
        headers.append((key, version, draw.choice(CLIENT_IDS), tags))
    for _ in range(3_000):
        key, version, client_id, tags = draw.choice(headers[: draw.choice([2, 12])])
        correlation_id = draw.randint(-(2**31), 2**31 - 1)
        body = draw.randbytes(draw.randrange(4))
        frame = frame_of(key, version, correlation_id, client_id, tags, body)
        assert served(handlers, session, frame) == ((key, version, correlation_id, client_id), body)


@pytest.mark.parametrize("cut", range(23))
def test_a_header_that_is_cut_is_refused_after_a_whole_one(cut: int) -> None:
    session, handlers = Session("client", "PLAINTEXT"), Handlers()
    whole = frame_of(ApiKey.PRODUCE, 9, 5, "producer-1", b"\0", b"")
    assert served(handlers, session, whole) == ((ApiKey.PRODUCE, 9, 5, "producer-1"), b"")
    if cut < len(whole):
        with pytest.raises(MalformedMessage):
            served(handlers, session, whole[:cut])
    # then: the next whole one is served again
    assert served(handlers, session, whole)[0][2] == 5


def test_a_version_that_is_not_served_is_refused_after_one_that_is() -> None:
    session, handlers = Session("client", "PLAINTEXT"), Handlers()
    served(handlers, session, frame_of(ApiKey.FETCH, 12, 1, "c", b"\0", b""))
    with pytest.raises(CloseConnection):
        served(handlers, session, frame_of(ApiKey.FETCH, 99, 1, "c", b"\0", b""))


def test_a_long_client_id_is_not_kept() -> None:
    session, handlers = Session("client", "PLAINTEXT"), Handlers()
    served(handlers, session, frame_of(ApiKey.FETCH, 12, 1, "y" * MOST_KNOWN_BYTES, b"\0", b""))
    assert session.known_header is None
