"""API v2: consumer instances over HTTP, from their creation to their end.

POST /consumers/G creates an instance; below its base_uri are subscription, assignments, positions, offsets
and records. An empty answer is 204. GET records ends with its time (the smaller of ?timeout
and consumer.request.timeout.ms), at max_bytes, or with more than fetch.min.bytes; it waits within its time
for the group to give the instance its partitions, so that the first read is not empty. Records have their
timestamps and headers if ?include=timestamp,headers asks for them, or the setting does.

Only records that were sent count as read. A record that does not fit the instance's format ends a read before
it; the read after that is answered 422 42207, which names it, and it stays the next of its partition until
positions are moved past it.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from ottla.rest.access import require_all, require_topics
from ottla.rest.consumers import consumer_errors
from ottla.rest.consumers.consumer_instance import ConsumerInstance, Reading
from ottla.rest.consumers.consumer_instances import ConsumerInstances
from ottla.rest.consumers.consumer_settings import DataFormat
from ottla.rest.v2 import consumer_bodies as bodies
from ottla.web.access_rules import Action
from ottla.web.application import json_answer
from ottla.web.callers import caller_of
from ottla.web.errors import ApiError
from ottla.web.media_types import negotiate

MEDIA_TYPE: Final = "application/vnd.kafka.v2+json"
MAX_GROUP_CHARACTERS: Final = 255
SEND_BYTES: Final = 256 << 10
SEND_SECONDS: Final = 30.0
"""The time in which a client must take SEND_BYTES of its answer, or the answer does not count as sent."""
TURNS_TO_SEE_A_CLIENT_LEAVE: Final = 3
"""Turns of the event loop from the connection's end to the watcher's."""
_ANY_FORMAT: Final = (MEDIA_TYPE, "application/vnd.kafka+json", "application/json")
"""The media types beside an instance's own that take its records."""
_HOST: Final = re.compile(r"[A-Za-z0-9._~-]+(:[0-9]{1,5})?|\[[0-9a-fA-F:.]+\](:[0-9]{1,5})?")


def routes(instances: ConsumerInstances) -> list[BaseRoute]:
    """The routes below /consumers."""
    consumers = _Consumers(instances)
    instance = "/consumers/{group}/instances/{instance}"
    return [
        Route("/consumers/{group}", consumers.create, methods=["POST"]),
        Route(instance, consumers.delete, methods=["DELETE"]),
        Route(f"{instance}/subscription", consumers.subscribe, methods=["POST"]),
        Route(f"{instance}/subscription", consumers.subscription, methods=["GET"]),
        Route(f"{instance}/subscription", consumers.unsubscribe, methods=["DELETE"]),
        Route(f"{instance}/assignments", consumers.assign, methods=["POST"]),
        Route(f"{instance}/assignments", consumers.assignments, methods=["GET"]),
        Route(f"{instance}/positions", consumers.seek, methods=["POST"]),
        Route(f"{instance}/positions/beginning", consumers.seek_to_beginning, methods=["POST"]),
        Route(f"{instance}/positions/end", consumers.seek_to_end, methods=["POST"]),
        Route(f"{instance}/offsets", consumers.commit, methods=["POST"]),
        Route(f"{instance}/offsets", consumers.committed, methods=["GET"]),
        Route(f"{instance}/records", consumers.records, methods=["GET"]),
    ]


class _Consumers:
    """One method a request."""

    def __init__(self, instances: ConsumerInstances) -> None:
        self._instances = instances

    async def create(self, request: Request) -> Response:
        group: str = request.path_params["group"]
        if len(group) > MAX_GROUP_CHARACTERS or not group.isprintable():
            raise ApiError(422, 422, f"a group's name has {MAX_GROUP_CHARACTERS} characters at most")
        owner = caller_of(request.scope).principal
        instance = await self._instances.create(group, await bodies.read_object(request), owner)
        path = f"/consumers/{quote(group, safe='')}/instances/{quote(instance.name, safe='')}"
        return _answer({"instance_id": instance.name, "base_uri": f"{self._base(request)}{path}"})

    async def delete(self, request: Request) -> Response:
        await self._instances.delete(self._instance(request))
        return _nothing()

    async def subscribe(self, request: Request) -> Response:
        instance = self._instance(request)
        body = await bodies.read_object(request, "topics", "topic_pattern")
        pattern = bodies.topic_pattern(body)
        topics = bodies.topics(body)
        if pattern is not None:
            if topics:
                raise consumer_errors.illegal_state(
                    "Subscription to topics, partitions and pattern are mutually exclusive"
                )
            require_all(request, Action.READ)
            await instance.subscribe_pattern(pattern)
            instance.reads_all = True
        elif body.get("topics") is None:
            raise ApiError(422, 422, "topics or topic_pattern must be given")
        else:
            require_topics(request, Action.READ, topics)
            await instance.subscribe(topics)
            instance.reads_all, instance.topics = False, frozenset(topics)
        return _nothing()

    async def subscription(self, request: Request) -> Response:
        return _answer({"topics": await self._instance(request).subscription()})

    async def unsubscribe(self, request: Request) -> Response:
        await self._instance(request).unsubscribe()
        return _nothing()

    async def assign(self, request: Request) -> Response:
        instance = self._instance(request)
        body = await bodies.read_object(request, "partitions")
        if body.get("partitions") is None:
            raise ApiError(422, 422, "partitions must be given")
        partitions = bodies.partitions(body)
        topics = frozenset(topic for topic, _ in partitions)
        require_topics(request, Action.READ, topics)
        await instance.assign(partitions)
        instance.reads_all, instance.topics = False, topics
        return _nothing()

    async def assignments(self, request: Request) -> Response:
        found = await self._instance(request).assignment()
        return _answer({"partitions": [{"topic": topic, "partition": number} for topic, number in found]})

    async def seek(self, request: Request) -> Response:
        instance = self._instance(request)
        body = await bodies.read_object(request, "offsets", "timestamps")
        await instance.seek(bodies.positions(body), bodies.times(body))
        return _nothing()

    async def seek_to_beginning(self, request: Request) -> Response:
        return await self._seek_to_ends(request, beginning=True)

    async def seek_to_end(self, request: Request) -> Response:
        return await self._seek_to_ends(request, beginning=False)

    async def _seek_to_ends(self, request: Request, *, beginning: bool) -> Response:
        instance = self._instance(request)
        body = await bodies.read_object(request, "partitions")
        await instance.seek_to_ends(bodies.partitions(body), beginning=beginning)
        return _nothing()

    async def commit(self, request: Request) -> Response:
        instance = self._instance(request)
        body = await bodies.read_object(request, "offsets", "partitions")
        commits = bodies.commits(body)
        require_topics(request, Action.READ, {each.topic for each in commits})
        if commits or body.get("offsets") is None:
            await instance.commit(commits)
        return _nothing()

    async def committed(self, request: Request) -> Response:
        instance = self._instance(request)
        body = await bodies.read_object(request, "partitions")
        partitions = bodies.partitions(body)
        require_topics(request, Action.READ, {topic for topic, _ in partitions})
        found = await instance.committed(partitions)
        offsets = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "metadata": each.metadata,
            }
            for each in found
        ]
        return _answer({"offsets": offsets})

    async def records(self, request: Request) -> Response:
        if request.method == "HEAD":  # Starlette adds HEAD to GET, and a read has an effect
            raise HTTPException(405, headers={"Allow": "GET"})
        instance = self._instance(request)
        data_format = instance.settings.data_format
        if not accepts(request.headers.get("accept", ""), data_format):
            raise ApiError(
                406,
                consumer_errors.FORMAT_MISMATCH,
                "The requested embedded data format does not match the deserializer for this consumer "
                f"instance, which is {data_format.media_type}",
            )
        # Rules may have changed since the subscription.
        if instance.reads_all:
            require_all(request, Action.READ)
        else:
            require_topics(request, Action.READ, instance.topics)
        bounds = self._instances.bounds(
            instance, bodies.query_number(request, "timeout"), bodies.query_number(request, "max_bytes")
        )
        include = bodies.query_fields(request) | self._instances.record_fields
        gone = asyncio.ensure_future(_client_leaves(request.receive))
        try:
            return _Records(await instance.read(bounds, gone, include), data_format)
        finally:
            gone.cancel()

    def _instance(self, request: Request) -> ConsumerInstance:
        """The caller's own instance of this name; those of others are as if they were not there. 40403."""
        found = self._instances.find(request.path_params["group"], request.path_params["instance"])
        if found.owner != caller_of(request.scope).principal:
            raise consumer_errors.instance_not_found()
        return found

    def _base(self, request: Request) -> str:
        """Scheme, host and port at which this instance is reached."""
        server = request.scope.get("server") or ("127.0.0.1", None)
        port = f":{server[1]}" if server[1] else ""
        host = request.headers.get("host", "")
        if self._instances.host_name is not None:
            host = f"{self._instances.host_name}{port}"
        elif not _HOST.fullmatch(host):
            host = f"[{server[0]}]{port}" if ":" in server[0] else f"{server[0]}{port}"
        return f"{request.scope.get('scheme', 'http')}://{host}"


class _Records(Response):
    """Sends a read's records in pieces, and ends the read with whether the client took all of them."""

    def __init__(self, reading: Reading, data_format: DataFormat) -> None:
        self._reading = reading
        super().__init__(None, 200, media_type=data_format.media_type)
        size = sum(map(len, reading.parts)) + max(0, len(reading.parts) - 1) + 2
        self.headers["content-length"] = str(size)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_client_leaves(receive))
        delivered = False
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            delivered = await self._send(send, gone)
        except TimeoutError:
            return  # the server ends the connection: its answer is not whole
        finally:
            gone.cancel()
            # to its end, whatever happens: until then the instance serves no other request
            await asyncio.shield(self._reading.end(delivered))
        if delivered:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, gone: asyncio.Future[None]) -> bool:
        """Send the pieces; whether the client was there until the last. After that it may leave at once."""
        pieces = _pieces(self._reading.parts)
        for left in range(len(pieces) - 1, -1, -1):
            async with asyncio.timeout(SEND_SECONDS):
                await send({"type": "http.response.body", "body": pieces[-1 - left], "more_body": True})
            pieces[-1 - left] = b""
            if left:
                for _ in range(
                    TURNS_TO_SEE_A_CLIENT_LEAVE
                ):  # the server drops pieces for a client that is gone
                    await asyncio.sleep(0)
                if gone.done() or self._reading.instance.closed:
                    return False
        return True


def _pieces(parts: list[bytes]) -> list[bytes]:
    """A JSON array of the parts, in pieces of about SEND_BYTES. Empties `parts` to free them early."""
    pieces: list[bytes] = []
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= SEND_BYTES:
            pieces.append(b",".join(held))
            held, size = [], 0
    if held:
        pieces.append(b",".join(held))
    parts.clear()
    if not pieces:
        return [b"[]"]
    first, last = pieces[0], len(pieces) - 1
    pieces[0] = b"[" + first
    for at in range(1, len(pieces)):
        pieces[at] = b"," + pieces[at]
    pieces[last] += b"]"
    return pieces


async def _client_leaves(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def accepts(header: str, data_format: DataFormat) -> bool:
    """Whether an Accept header takes records of this format; one that names no format takes any."""
    return negotiate(header, (data_format.media_type, *_ANY_FORMAT)) is not None


def _answer(content: Any) -> Response:
    return json_answer(content, 200, MEDIA_TYPE)


def _nothing() -> Response:
    return Response(status_code=204)
