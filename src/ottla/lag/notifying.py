"""Tells of incidents: a line in the log, and a POST to a URL that waits in a bounded queue until it is taken.

A message that can't be delivered is sent again after growing pauses, up to ATTEMPTS times; those behind it
wait. When the queue is full the oldest goes, since the newest tells more. Answers of 4xx, other than 408 and
429, say that the message itself is wrong: it is not sent again.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import httpx

from ottla.lag.core.incidents import Notice, NoticeKind
from ottla.lag.core.verdicts import Status
from ottla.lag.wire import partition_body

log = logging.getLogger("ottla.lag")

QUEUE: Final = 1_000
ATTEMPTS: Final = 8
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
STOP_SECONDS: Final = 3.0
"""For the messages that wait when the service stops."""
PARTITIONS_A_MESSAGE: Final = 1_000
AGAIN: Final = frozenset({408, 429})


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where messages go. user_info: name:password. context: of TLS; None: with the system's authorities."""

    url: str
    url_close: str
    user_info: str | None = None
    timeout_seconds: float = 5.0
    context: ssl.SSLContext | None = None


class Notifier:
    """Tells of incidents while `run` runs. sent, failed, dropped: messages so far."""

    def __init__(
        self, cluster: str, webhook: Webhook | None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.sent = self.failed = self.dropped = 0
        self._cluster = cluster
        self._webhook = webhook
        self._transport = transport
        self._waiting: deque[Notice] = deque()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def tell(self, notice: Notice) -> None:
        """Log a message, and send it as soon as those before it have gone."""
        of_group = f"group {notice.group} of cluster {self._cluster} is {notice.status.name}"
        if notice.kind is NoticeKind.OPEN:
            verdict = notice.verdict
            lag = "" if verdict is None else f", lag {verdict.total_lag}"
            log.warning("%s%s (incident %s)", of_group, lag, notice.incident)
        else:
            log.info("%s, the incident %s has ended", of_group, notice.incident)
        if self._webhook is None:
            return
        if len(self._waiting) == QUEUE:
            self._waiting.popleft()
            self.dropped += 1
            log.warning("a message about an incident is dropped: %d wait for the webhook", QUEUE)
        self._waiting.append(notice)
        self._idle.clear()
        self._news.set()

    async def run(self) -> None:
        """Send messages for ever."""
        webhook = self._webhook
        if webhook is None:
            await asyncio.Event().wait()
            return
        verify: ssl.SSLContext | bool = webhook.context or True
        async with httpx.AsyncClient(
            transport=self._transport,
            timeout=webhook.timeout_seconds,
            verify=verify,
            headers=_headers(webhook),
        ) as client:
            while True:
                while not self._waiting:
                    self._idle.set()
                    self._news.clear()
                    await self._news.wait()
                await self._deliver(client, webhook, self._waiting.popleft())

    async def drain(self) -> None:
        """Wait a moment for the messages that are on their way."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            log.warning("%d messages about incidents are not delivered", len(self._waiting) + 1)

    async def _deliver(self, client: httpx.AsyncClient, webhook: Webhook, notice: Notice) -> None:
        url = webhook.url if notice.kind is NoticeKind.OPEN else webhook.url_close
        body = json.dumps(notice_body(self._cluster, notice))
        pause_seconds = FIRST_PAUSE_SECONDS
        for attempt in range(1, ATTEMPTS + 1):
            problem, is_final = await _posted(client, url, body)
            if problem is None:
                self.sent += 1
                return
            if is_final or attempt == ATTEMPTS:
                self.failed += 1
                log.error("a message about group %s is not delivered: %s", notice.group, problem)
                return
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)


async def _posted(client: httpx.AsyncClient, url: str, body: str) -> tuple[str | None, bool]:
    """Why a message was not taken, None if it was; and whether it would be in vain to send it again."""
    try:
        answer = await client.post(url, content=body)
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        return f"{type(problem).__name__}: {problem}", isinstance(problem, httpx.InvalidURL)
    if answer.is_success:
        return None, False
    return f"the answer is {answer.status_code}", answer.is_client_error and answer.status_code not in AGAIN


def notice_body(cluster: str, notice: Notice) -> dict[str, Any]:
    """A message in JSON, with the fields of Burrow's own template and a few more."""
    verdict = notice.verdict
    partitions = () if verdict is None else verdict.partitions
    return {
        "kind": notice.kind.value,
        "events": [
            {
                "id": notice.incident,
                "event": {
                    "severity": "WARN" if notice.status is Status.WARN else notice.status.name,
                    "cluster": cluster,
                    "group": notice.group,
                    "start": _time(notice.started_ms),
                    "time": _time(notice.at_ms),
                    "complete": 0.0 if verdict is None else verdict.complete,
                    "totallag": 0 if verdict is None else verdict.total_lag,
                    "partitions": [partition_body(one) for one in partitions if one.status > Status.OK][
                        :PARTITIONS_A_MESSAGE
                    ],
                },
            }
        ],
    }


def _headers(webhook: Webhook) -> dict[str, str]:
    headers = {"content-type": "application/json"}
    if webhook.user_info is not None:
        headers["authorization"] = "Basic " + base64.b64encode(webhook.user_info.encode()).decode()
    return headers


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
