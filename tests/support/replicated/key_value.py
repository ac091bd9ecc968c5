"""A toy service on ottla.replicated, for its tests: lists of tokens by key, in a topic of several partitions.

    python key_value.py BOOTSTRAP HOST:PORT TOPIC

`POST /append` of `{"keys": […], "token": …}` appends the token to the list of each key, all or none, and
answers with its index in each: a decision from an image that lacks a write gives an index twice. `GET /lists`
answers the image, `GET /state` the instance's own state. Refusals are 503.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.client.access import ClusterAccess
from ottla.replicated.background import BackgroundTasks
from ottla.replicated.decision import Decision
from ottla.replicated.errors import Fenced, NotPrimary, StateError, TooLarge, Unstored
from ottla.replicated.forwarding import (
    Forwarder,
    ForwardingHeaders,
    HttpRequest,
    NoPrimary,
    PrimaryUnreachable,
)
from ottla.replicated.group_member import Generation, GroupMember, GroupTimes
from ottla.replicated.leadership import Leadership
from ottla.replicated.loss import TopicLost
from ottla.replicated.preparing import TopicSpec
from ottla.replicated.primary import Primary
from ottla.replicated.records import Record, ReplayedRecord
from ottla.replicated.topic import OtherTopic, ReplicatedTopic
from ottla.web.application import json_answer, json_application
from ottla.web.bodies import hung_up
from ottla.web.errors import ApiError, ServiceError
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.running import run_alone
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

PARTITIONS: Final = 3
TIMEOUT_MS: Final = 5_000
HEADERS: Final = ForwardingHeaders(forwarded="x-passed-on", place="x-place")
TIMES: Final = GroupTimes(session_timeout_ms=1_500, heartbeat_interval_ms=200)
NAME: Final = "lists"


class FirstUrl:
    """Satisfies GroupProtocol: the present primary stays, else the member of the first URL becomes it."""

    protocol_type = "toy"

    def __init__(self, url: str, leadership: Leadership) -> None:
        self._url = url
        self._leadership = leadership

    def subscriptions(self) -> Sequence[tuple[str, bytes]]:
        return [("first-url", orjson.dumps([not self._leadership.is_here, self._url]))]

    async def assign(self, generation: Generation, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return dict.fromkeys(members, min(members.values()))

    def assigned(self, generation: Generation, assignment: bytes) -> None:
        _, url = orjson.loads(assignment)
        self._leadership.learn(url, url == self._url)

    def lost(self) -> None:
        self._leadership.learn(None, False)


class KeyValueService:
    """Satisfies `Service`."""

    name = NAME
    front = FrontOptions()

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.app = json_application(
            [
                Route("/append", self.append, methods=["POST"]),
                Route("/lists", self.all_lists),
                Route("/state", self.state),
            ]
        )
        self._access = ClusterAccess(bootstrap, client_id="toy")
        self._lists: dict[str, list[str]] = {}
        spec = TopicSpec(topic, "lists", "the lists are lost: {}".format, PARTITIONS)
        self._topic = ReplicatedTopic(self._access, spec, self._replay, f"{topic}-primary", TIMEOUT_MS)
        self._group_id = topic
        self._leadership = Leadership(topic)
        self._primary = Primary(self._topic, self._leadership)
        self._forwarder = Forwarder(self._topic, self._leadership, HEADERS, TIMEOUT_MS)
        self._member: GroupMember | None = None
        self._tasks = BackgroundTasks()

    def _replay(self, record: ReplayedRecord) -> None:
        self._lists[record.key.decode()] = orjson.loads(record.value or b"[]")

    async def start(self, address: HttpAddress) -> None:
        """See `Service`."""
        self._member = GroupMember(
            self._access, self._group_id, FirstUrl(address.url, self._leadership), TIMES
        )
        try:
            await self._topic.prepare()
            self._tasks.start("topic", self._topic.read())
            self._tasks.start("group", self._member.run())
            async with asyncio.timeout(20):
                await self._tasks.unless_ended(self._primary.catch_up())
        except (StateError, Unstored, TopicLost, TimeoutError) as problem:
            raise ServiceError(f"lists: {problem!r}") from None

    async def failed(self) -> str:
        """See `Service`."""
        return await self._tasks.ended()

    def observed(self, figures: RequestFigures) -> Observed:
        return Observed()

    def end_requests(self) -> None:
        """Nothing to do: no request waits for longer than its time limit."""

    async def stop(self) -> None:
        """See `Service`."""
        await self._forwarder.close()
        await self._tasks.stop()
        await self._topic.close()
        if self._member is not None:
            await self._member.close()

    async def all_lists(self, _request: Request) -> Response:
        return json_answer(self._lists)

    async def state(self, _request: Request) -> Response:
        loss = self._topic.loss
        return json_answer(
            {
                "is_primary": self._leadership.is_here,
                "primary": self._leadership.url,
                "loss": None if loss is None else loss.name,
            }
        )

    async def append(self, request: Request) -> Response:
        body = await request.body()
        try:
            if not self._leadership.is_here:
                return await self._forwarded(request, body)
            wanted = orjson.loads(body)
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                indexes = await self._primary.write(partial(self._decide, wanted["keys"], wanted["token"]))
            answer = json_answer(indexes)
            answer.headers.update(HEADERS.answered(request.headers, self._topic.place))
            return answer
        except (NotPrimary, NoPrimary, PrimaryUnreachable, Fenced, TooLarge, Unstored) as problem:
            raise ApiError(503, 503, f"{type(problem).__name__}: {problem}") from None
        except (TimeoutError, TopicLost, OtherTopic) as problem:
            raise ApiError(503, 503, f"{type(problem).__name__}: {problem}") from None

    async def _forwarded(self, request: Request, body: bytes) -> Response:
        whole = HttpRequest("POST", request.url.path.encode(), dict(request.headers), body)
        answer = await self._forwarder.forward(whole, partial(hung_up, request))
        return Response(answer.body, answer.status, dict(answer.headers))

    def _decide(self, keys: Sequence[str], token: str) -> Decision[dict[str, Any]]:
        lists = {key: [*self._lists.get(key, ()), token] for key in keys}
        records = tuple(Record(key.encode(), orjson.dumps(tokens)) for key, tokens in lists.items())
        return Decision(records, {key: len(tokens) - 1 for key, tokens in lists.items()})


def main(bootstrap: str, listen: str, topic: str) -> int:
    service = KeyValueService(bootstrap, topic)
    return asyncio.run(run_alone(service, [HttpAddress.parse(listen)], partial(print, flush=True)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
