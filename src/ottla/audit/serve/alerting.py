"""Tells of buckets that are not complete: a line in the log, a POST to a URL, a mail.

Each bucket is told once when it is found incomplete, again when more is lost, and once when it is complete
after all. What waits to be delivered is bounded: when it is too much the oldest goes, and the log says so.
A message that can't be delivered is tried again after growing pauses, and those behind it wait.
"""

from __future__ import annotations

import asyncio
import json
import logging
import smtplib
import ssl
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any, Final

import httpx

from ottla.audit.core.book import Key
from ottla.audit.core.rows import Row, State, row_fields

QUEUE: Final = 1_000
ATTEMPTS: Final = 8
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
MOST_OPEN: Final = 100_000
ROWS_A_MESSAGE: Final = 100
TIMEOUT_SECONDS: Final = 10.0

_log = logging.getLogger("ottla.audit")


@dataclass(frozen=True, slots=True)
class Mail:
    """Where mails go, and by which server. user, password: None for a server that asks for none."""

    host: str
    port: int
    sender: str
    recipients: tuple[str, ...]
    starttls: bool = False
    user: str | None = None
    password: str | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """Rows that are incomplete, or are complete after all."""

    rows: tuple[Row, ...]
    is_over: bool = False


class Alerting:
    """Tells while `run` runs. sent, failed: messages so far."""

    def __init__(
        self,
        url: str | None,
        mail: Mail | None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.sent = self.failed = 0
        self._url = url
        self._mail = mail
        self._transport = transport
        self._open: dict[Key, int] = {}
        self._waiting: deque[Alert] = deque()
        self._news = asyncio.Event()

    @property
    def open(self) -> int:
        """The buckets that are incomplete."""
        return len(self._open)

    def judge(self, rows: Iterable[Row]) -> None:
        """Look at rows that have changed, and tell of what is new."""
        begun: list[Row] = []
        ended: list[Row] = []
        for row in rows:
            key = Key(row.tier, row.topic, row.bucket_start_ms)
            if row.state is State.INCOMPLETE:
                if row.lost > self._open.get(key, 0):
                    begun.append(row)
                if len(self._open) < MOST_OPEN or key in self._open:
                    self._open[key] = row.lost
            elif row.state is State.COMPLETE and self._open.pop(key, None) is not None:
                ended.append(row)
        for found, is_over in ((begun, False), (ended, True)):
            for at in range(0, len(found), ROWS_A_MESSAGE):
                self._tell(Alert(tuple(found[at : at + ROWS_A_MESSAGE]), is_over))

    def forget(self, before_ms: int) -> None:
        """Buckets that began earlier are not looked at any more."""
        self._open = {key: lost for key, lost in self._open.items() if key.bucket_start_ms >= before_ms}

    async def run(self) -> None:
        """Deliver messages for ever."""
        async with httpx.AsyncClient(transport=self._transport, timeout=TIMEOUT_SECONDS) as client:
            while True:
                while not self._waiting:
                    self._news.clear()
                    await self._news.wait()
                alert = self._waiting.popleft()
                if self._url is not None:
                    await self._deliver("the webhook", lambda one=alert: self._post(client, one))
                if self._mail is not None:
                    await self._deliver("the mail server", lambda one=alert: self._send_mail(one))

    def _tell(self, alert: Alert) -> None:
        for row in alert.rows:
            _log.log(logging.INFO if alert.is_over else logging.WARNING, "%s", sentence(row))
        if self._url is None and self._mail is None:
            return
        if len(self._waiting) == QUEUE:
            self._waiting.popleft()
            self.failed += 1
            _log.warning("an alert is dropped: %d wait to be delivered", QUEUE)
        self._waiting.append(alert)
        self._news.set()

    async def _deliver(self, where: str, attempt: Any) -> None:
        pause_seconds = FIRST_PAUSE_SECONDS
        for number in range(1, ATTEMPTS + 1):
            problem = await attempt()
            if problem is None:
                self.sent += 1
                return
            if number == ATTEMPTS:
                self.failed += 1
                _log.error("an alert is not delivered to %s: %s", where, problem)
                return
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    async def _post(self, client: httpx.AsyncClient, alert: Alert) -> str | None:
        """Why the message was not taken; None if it was."""
        assert self._url is not None
        try:
            answer = await client.post(
                self._url, content=json.dumps(body_of(alert)), headers={"content-type": "application/json"}
            )
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            return f"{type(problem).__name__}: {problem}"
        return None if answer.is_success else f"the answer is {answer.status_code}"

    async def _send_mail(self, alert: Alert) -> str | None:
        assert self._mail is not None
        try:
            await asyncio.to_thread(send_mail, self._mail, alert)
        except (OSError, smtplib.SMTPException) as problem:
            return f"{type(problem).__name__}: {problem}"
        return None


def send_mail(mail: Mail, alert: Alert) -> None:
    """Send one mail. Raises OSError, SMTPException."""
    message = EmailMessage()
    message["From"], message["To"] = mail.sender, ", ".join(mail.recipients)
    word = "complete after all" if alert.is_over else "incomplete"
    places = sorted({f"{row.topic} in {row.tier}" for row in alert.rows})
    named = ", ".join(places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
    message["Subject"] = f"[ottla audit] {word}: {named}"
    message.set_content("\n".join(sentence(row) for row in alert.rows) + "\n")
    with smtplib.SMTP(mail.host, mail.port, timeout=TIMEOUT_SECONDS) as server:
        if mail.starttls:
            server.starttls(context=ssl.create_default_context())
        if mail.user is not None:
            server.login(mail.user, mail.password or "")
        server.send_message(message)


def body_of(alert: Alert) -> dict[str, Any]:
    """An alert as JSON."""
    return {
        "kind": "complete" if alert.is_over else "incomplete",
        "rows": [row_fields(row, details=True) for row in alert.rows],
    }


def sentence(row: Row) -> str:
    """What is to be said of a row, in a line."""
    at = datetime.fromtimestamp(row.bucket_start_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    where = f"{row.topic} in {row.tier}, bucket {at}"
    if row.state is State.COMPLETE:
        return f"{where}: complete after all, {row.counted} of {row.expected}"
    return f"{where}: {row.lost} of {row.expected} lost"
