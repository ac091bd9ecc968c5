"""aiokafka's producer with an audit: each record carries a mark, and the producer reports how many.

One send at a time is handed to the library, so that a send that is refused or cancelled takes its number
back before another one has the next. Batches that a caller builds (`create_batch`) carry no marks: the audit
counts them as unmarked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import uuid
from collections.abc import Iterable
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from ottla.client.audit.ledger import Ledger, Reporter
from ottla.client.audit.mark import HEADER
from ottla.client.audit.reports import DEFAULT_BUCKET_MS, REPORTS_TOPIC, report_key, report_value
from ottla.client.audit.sending import (
    CLOSE_SECONDS,
    DEFAULT_INTERVAL_SECONDS,
    LEAST_INTERVAL_SECONDS,
)
from ottla.client.clock import now_ms

_KEPT_PREFIXES: Final = ("bootstrap_servers", "security_protocol", "ssl_", "sasl_", "api_version")
_log = logging.getLogger("ottla.audit")


class AuditedAIOKafkaProducer(AIOKafkaProducer):  # type: ignore[misc]
    """An AIOKafkaProducer that reports. Its methods are that producer's; `stop` sends the last report."""

    def __init__(
        self,
        *,
        tier: str,
        host: str | None = None,
        bucket_ms: int = DEFAULT_BUCKET_MS,
        report_interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
        reports_topic: str = REPORTS_TOPIC,
        **options: Any,
    ) -> None:
        if not tier:
            raise ValueError("an audited producer needs the name of its tier")
        super().__init__(**options)
        client = str(options.get("client_id") or "")
        reporter = Reporter(tier, (host or socket.gethostname())[:255], client[:255], bucket_ms)
        self._ledger = Ledger(reporter, uuid.uuid4())
        self._handing = asyncio.Lock()
        self._reporting = asyncio.Lock()
        self._report_interval_seconds = report_interval_seconds
        self._reports_topic = reports_topic
        self._report_options = {
            name: value for name, value in options.items() if name.startswith(_KEPT_PREFIXES)
        }
        self._report_options["client_id"] = f"{client or 'ottla'}-audit"
        self._report_client: AIOKafkaProducer | None = None
        self._report_task: asyncio.Task[None] | None = None
        self._last_report = 0.0
        self._report_problem = ""

    async def start(self) -> None:
        """As aiokafka's."""
        await super().start()
        self._report_task = asyncio.create_task(self._report_for_ever(), name="audit reports")

    async def stop(self) -> None:
        """As aiokafka's, with the last report."""
        task, self._report_task = self._report_task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await super().stop()
        if task is not None:
            await self._report(CLOSE_SECONDS, final=True)
        client, self._report_client = self._report_client, None
        if client is not None:
            await client.stop()

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Iterable[tuple[str, bytes]] | None = None,
    ) -> Any:
        """As aiokafka's."""
        await self.partitions_for(topic)  # a topic that is not there must not keep others waiting
        async with self._handing:
            timestamp_ms = now_ms() if timestamp_ms is None else timestamp_ms
            slot, mark = self._ledger.sending(topic, timestamp_ms)
            marked = [pair for pair in headers or () if pair[0] != HEADER]
            marked.append((HEADER, mark))
            try:
                return await super().send(topic, value, key, partition, timestamp_ms, marked)
            except BaseException:
                self._ledger.refused(slot)
                raise

    async def begin_transaction(self) -> None:
        """As aiokafka's."""
        await super().begin_transaction()
        self._ledger.begin_transaction()

    async def commit_transaction(self) -> None:
        """As aiokafka's."""
        await super().commit_transaction()
        self._ledger.end_transaction(committed=True)

    async def abort_transaction(self) -> None:
        """As aiokafka's."""
        await super().abort_transaction()
        self._ledger.end_transaction(committed=False)

    async def flush(self) -> None:
        """As aiokafka's, and reports what was sent."""
        await super().flush()
        if asyncio.get_running_loop().time() - self._last_report >= LEAST_INTERVAL_SECONDS:
            await self._report(CLOSE_SECONDS)

    async def _report_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._report_interval_seconds)
            await self._report(self._report_interval_seconds)

    async def _report(self, seconds: float, *, final: bool = False) -> None:
        """Send what is new; a failure is logged, and told again later."""
        async with self._reporting:
            self._last_report = asyncio.get_running_loop().time()
            async with self._handing:
                reports = self._ledger.reports(now_ms(), final=final)
            if not reports:
                return
            try:
                async with asyncio.timeout(seconds):
                    client = await self._reporter()
                    waiting = [
                        await client.send(self._reports_topic, report_value(one), report_key(one))
                        for one in reports
                    ]
                    await asyncio.gather(*waiting)
            except (KafkaError, OSError, TimeoutError) as problem:
                reason = str(problem) or type(problem).__name__
                if reason != self._report_problem:
                    self._report_problem = reason
                    _log.warning("a report to %s is not sent: %s", self._reports_topic, reason)
                return
            self._ledger.told(reports)
            self._report_problem = ""

    async def _reporter(self) -> AIOKafkaProducer:
        if self._report_client is None:
            client = AIOKafkaProducer(**self._report_options, enable_idempotence=True)
            try:
                await client.start()
            except BaseException:
                with contextlib.suppress(KafkaError, OSError):
                    await client.stop()
                raise
            self._report_client = client
        return self._report_client
