"""API v3: POST …/topics/T/records, records in and delivery reports out at the same time; records:batch.

Theory of operation. A stream has two sides that run at the same time. One reads: each piece of the body
becomes a group of records, encoded and given to the producer in their order. The other writes: it waits for
each group in turn and answers for its records in their order, those that were refused included. Between them
is a queue of QUEUED_GROUPS groups: when it is full, as the client does not read the answers or the cluster is
slow, no more of the body is read. The status is 200 once a stream has begun; a record's error is in its own
answer. JSON that can't be read ends the stream, as the start of the next record is unknown; a record of
another shape does not.

A proxy that is about to stop reads no more of a stream after END_SECONDS. It answers for all records that it
has read, then with an error that says so; the records behind them were not produced.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from confluent_kafka import KafkaError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from ottla.rest import kafka_errors
from ottla.rest.records.bytes_in_work import Held
from ottla.rest.records.concatenated_json import MalformedStream, ObjectStream, ObjectTooLarge
from ottla.rest.records.encoding import SchemaEncoders
from ottla.rest.records.json_bounds import MAX_VALUES, has_too_many_values
from ottla.rest.records.producing import Deliveries, Producing
from ottla.rest.v3.record_requests import Prepared, RecordRequests
from ottla.web.application import error_answer, json_answer
from ottla.web.bodies import parse_json, read_body
from ottla.web.errors import ApiError

log = logging.getLogger("ottla.rest")

MEDIA_TYPE: Final = "application/json"
QUEUED_GROUPS: Final = 8
GROUP_RECORDS: Final = 1_000
BATCH_ENTRIES: Final = 1_000
END_SECONDS: Final = 1.0
"""How long a stream is still read once the proxy is about to stop: a short one is whole by then."""
_ENTRY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")

_Item = Prepared | ApiError


def routes(producing: Producing) -> list[BaseRoute]:
    """The routes that produce."""
    records = _Records(producing)
    topic = "/v3/clusters/{cluster_id}/topics/{topic}"
    return [
        Route(f"{topic}/records", records.stream, methods=["POST"]),
        Route(f"{topic}/records:batch", records.batch, methods=["POST"]),
    ]


class _Records:
    def __init__(self, producing: Producing) -> None:
        self._producing = producing
        self._encoders = SchemaEncoders()

    async def stream(self, request: Request) -> _Stream:
        """A stream of records, often of one only."""
        topic = await self._topic(request)
        return _Stream(self._producing, topic)

    async def batch(self, request: Request) -> Response:
        """Produce entries with ids; the answer has those that were written, and errors for the others."""
        topic = await self._topic(request)
        with self._producing.work.request() as held:
            body = await read_body(request, self._producing.max_body_bytes)
            await held.add(len(body))
            entries = _entries(body)
            group = await topic.produce([entry for _, entry in entries])
            answers = await topic.answers(group)
        content: dict[str, list[dict[str, Any]]] = {"successes": [], "failures": []}
        for (name, _), answer in zip(entries, answers, strict=True):
            if answer["error_code"] == 200:
                del answer["error_code"]
                content["successes"].append({"id": name, **answer})
            else:
                content["failures"].append({"id": name, **answer})
        return json_answer(content, 207)

    async def _topic(self, request: Request) -> _Topic:
        """The topic of a request. Raises ApiError and HTTPException before any of the body is read."""
        content_type = request.headers.get("content-type", MEDIA_TYPE).partition(";")[0].strip().lower()
        if content_type != MEDIA_TYPE:
            raise HTTPException(415)
        cluster_id = await self._producing.cluster_id()
        if request.path_params["cluster_id"] != cluster_id:
            raise ApiError(404, 404, f"Cluster {request.path_params['cluster_id'][:100]} cannot be found.")
        topic: str = request.path_params["topic"]
        return _Topic(
            self._producing, cluster_id, topic, RecordRequests(self._producing, self._encoders, topic)
        )


@dataclass(frozen=True, slots=True)
class _Group:
    """Records that were given to the producer together; refused records have errors in their places."""

    items: list[_Item]
    deliveries: Deliveries


class _Topic:
    """The topic of a request."""

    def __init__(self, producing: Producing, cluster_id: str, name: str, requests: RecordRequests) -> None:
        self._producing = producing
        self._requests = requests
        self._shared = {"error_code": 200, "cluster_id": cluster_id, "topic_name": name}
        self.name = name
        self._unknown = False
        self._second = (-1, "")

    async def produce(self, records: list[Any]) -> _Group:
        """Give the records that can be sent to the producer."""
        # asked for once a request: a stream to a missing topic gets the error for each record, quickly
        count = None if self._unknown else await self._producing.partitions(self.name)
        self._unknown = count is None
        items = [await self._prepare(record, count or 0) for record in records]
        outgoing = [item.outgoing for item in items if type(item) is Prepared]
        return _Group(items, await self._producing.send(self.name, outgoing))

    async def answers(self, group: _Group) -> list[dict[str, Any]]:
        """The answer for each record, once all of the group are reported."""
        deliveries = group.deliveries
        await deliveries.wait()
        found = []
        place = 0
        for item in group.items:
            if type(item) is Prepared:
                found.append(self._delivered(item, deliveries, place))
                place += 1
            else:
                assert isinstance(item, ApiError), "one or the other"
                found.append({"error_code": item.error_code, "message": item.message})
        return found

    async def _prepare(self, record: Any, count: int) -> _Item:
        """A record that can be produced, or why it can't be."""
        try:
            if type(record) is not dict:
                raise ApiError(400, 400, "A record must be a JSON object.")
            prepared = await self._requests.prepare(record)
            partition = prepared.outgoing.partition
            if self._unknown:
                raise ApiError(404, 40403, kafka_errors.NO_SUCH_PARTITION)
            if partition >= count and partition >= (
                await self._producing.partitions(self.name, partition + 1) or 0
            ):
                raise ApiError(404, 40402, "Partition not found.")
            return prepared
        except ApiError as problem:
            return problem

    def _delivered(self, item: Prepared, deliveries: Deliveries, place: int) -> dict[str, Any]:
        error = deliveries.failures.get(place)
        if error is not None:
            if error.code() in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
                self._producing.forget_topic(self.name)
            problem = kafka_errors.of_kafka_error(error)
            code = 50003 if error.code() == KafkaError._MSG_TIMED_OUT else problem.error_code
            return {"error_code": code, "message": problem.message}
        answer: dict[str, Any] = {
            **self._shared,
            "partition_id": deliveries.partitions[place],
            "offset": deliveries.offsets[place],
            "timestamp": self._moment(deliveries.timestamps[place]),
        }
        if item.key is not None:
            answer["key"] = item.key
        if item.value is not None:
            answer["value"] = item.value
        return answer

    def _moment(self, timestamp_ms: int) -> str | None:
        """A time in ISO 8601; the text of a second is made once for records that follow each other."""
        if timestamp_ms < 0:
            return None
        second, millisecond = divmod(timestamp_ms, 1_000)
        if second != self._second[0]:
            self._second = second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._second[1]}.{millisecond:03}Z"


class _Stream(Response):
    """Reads the request and writes the answer at the same time."""

    def __init__(self, producing: Producing, topic: _Topic) -> None:
        super().__init__(media_type=MEDIA_TYPE)
        self._producing = producing
        self._topic = topic
        self._groups: asyncio.Queue[tuple[_Group | ApiError, int] | None] = asyncio.Queue(QUEUED_GROUPS)
        self._end: asyncio.Timeout | None = None
        self._end_at: float | None = None

    def end_soon(self) -> None:
        """See EndsSoon."""
        self._end_at = asyncio.get_running_loop().time() + END_SECONDS
        if self._end is not None:
            self._end.reschedule(self._end_at)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._producing.work.request() as held, self._producing.streams.entered(self):
            reading = asyncio.create_task(self._read(receive, held), name="records of a stream")
            try:
                await self._write(scope, receive, send, held)
            finally:
                reading.cancel()
                await asyncio.wait([reading])
            if not reading.cancelled() and (problem := reading.exception()) is not None:
                raise problem

    async def _read(self, receive: Receive, held: Held) -> None:
        """Turn the body into groups, until its end, the client's, or JSON that can't be read."""
        try:
            await self._read_groups(receive, held)
        except ApiError as problem:
            await self._groups.put((problem, 0))
        except (MalformedStream, ObjectTooLarge) as problem:
            code = 413 if isinstance(problem, ObjectTooLarge) else 400
            await self._groups.put((ApiError(code, code, f"The stream ends here: {problem}"), 0))
        except Exception:
            log.exception("a stream of records failed")
            await self._groups.put((ApiError(500, 50001, "Internal Server Error"), 0))
        await self._groups.put(None)

    async def _read_groups(self, receive: Receive, held: Held) -> None:
        stream = ObjectStream(self._producing.max_body_bytes)
        more = True
        while more:
            message = await self._next_message(receive)
            if message["type"] == "http.disconnect":
                return
            more = message.get("more_body", False)
            piece = message.get("body", b"")
            await held.add(len(piece))
            size = stream.held_bytes + len(piece)
            records: list[Any] = []
            problem: Exception | None = None
            try:
                for record in stream.feed(piece):
                    records.append(record)
                    if len(records) == GROUP_RECORDS:
                        await self._groups.put((await self._topic.produce(records), 0))
                        records = []
                if not more:
                    stream.end()
            except (MalformedStream, ObjectTooLarge) as found:
                problem = found
            size -= stream.held_bytes
            if records:
                await self._groups.put((await self._topic.produce(records), size))
            else:
                held.give_back(size)
            if problem is not None:
                raise problem

    async def _next_message(self, receive: Receive) -> Message:
        """The next part of the body. Raises ApiError once the proxy is about to stop."""
        try:
            # a client that always has a part ready lets no timeout come to pass
            if self._end_at is None or asyncio.get_running_loop().time() < self._end_at:
                async with asyncio.timeout_at(self._end_at) as self._end:
                    return await receive()
        except TimeoutError:
            pass
        finally:
            self._end = None
        raise ApiError(503, 50301, "The proxy is stopping: no record after these was read")

    async def _write(self, scope: Scope, receive: Receive, send: Send, held: Held) -> None:
        """Write the answers of the groups in their order, until there are no more."""
        begun = False
        while (entry := await self._groups.get()) is not None:
            group, size = entry
            if isinstance(group, ApiError):
                answers = [{"error_code": group.error_code, "message": group.message}]
            else:
                answers = await self._topic.answers(group)
            body = b"".join([orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE) for answer in answers])
            held.give_back(size)
            if not begun:
                begun = True
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": body, "more_body": True})
        if begun:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            empty = error_answer(
                422, 42206, "Payload error. Null input provided. Data is required.", MEDIA_TYPE
            )
            await empty(scope, receive, send)


_HEADERS: Final = [(b"content-type", MEDIA_TYPE.encode())]


def _entries(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The entries of a batch, by their ids. Raises ApiError."""
    if has_too_many_values(body):
        raise ApiError(413, 413, f"The request has more than {MAX_VALUES} values")
    asked = parse_json(body, ApiError(400, 400, "The request is not JSON"))
    if not isinstance(asked, dict) or not isinstance(asked.get("entries"), list):
        raise ApiError(422, 42206, "Payload error. A batch is an object with an array of entries.")
    if not asked["entries"]:
        raise ApiError(422, 42208, "Empty batch.")
    if len(asked["entries"]) > BATCH_ENTRIES:
        raise ApiError(422, 42208, f"A batch has at most {BATCH_ENTRIES} entries.")
    found: dict[str, dict[str, Any]] = {}
    for entry in asked["entries"]:
        name = entry.pop("id", None) if isinstance(entry, dict) else None
        if not isinstance(name, str) or not _ENTRY_ID.fullmatch(name):
            raise ApiError(422, 42208, "Batch entry identifier is not a valid string.")
        if name in found:
            raise ApiError(422, 42208, f"Two batch entries have the identifier {name}.")
        found[name] = entry
    return list(found.items())
