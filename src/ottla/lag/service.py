"""`ottla lag serve` as a service: it watches one cluster, answers over HTTP, and tells of incidents."""

from __future__ import annotations

import asyncio
import logging
import ssl
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from starlette.types import ASGIApp

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.config.settings import Settings
from ottla.lag import settings as names
from ottla.lag.core.incidents import Incidents
from ottla.lag.core.tracker import Tracker
from ottla.lag.http_api import HttpApi
from ottla.lag.notifying import Notifier, Webhook
from ottla.lag.observing import lag_families
from ottla.lag.sampler import Sampler, Snapshot
from ottla.metrics.exposition import Exposition, Family
from ottla.metrics.health import Check, Verdict
from ottla.metrics.process import process_source
from ottla.web.errors import ServiceError
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

CLIENT_ID: Final = "ottla-lag"
log = logging.getLogger("ottla.lag")


class LagService:
    """Satisfies `Service`."""

    name: Final = "lag"

    def __init__(self, settings: Settings) -> None:
        """Raises ServiceError for settings of the client that can't be, ConfigError."""
        settings.warn_of_unknown(log)
        self.front = FrontOptions.of(settings)
        self._watching = _Watching(settings)
        self.app: ASGIApp = HttpApi(self._watching)
        self._tasks: list[asyncio.Task[None]] = []

    def observed(self, figures: RequestFigures) -> Observed:
        """See `Service`."""
        watching = self._watching
        return Observed(watching.families, [Check("cluster", watching.verdict)])

    async def start(self, address: HttpAddress) -> None:
        """Begin to watch. The cluster need not be there yet."""
        watching = self._watching
        sampling, notifying = watching.sampler.run(watching.judged), watching.notifier.run()
        self._tasks = [
            asyncio.create_task(sampling, name="watching the cluster"),
            asyncio.create_task(notifying, name="telling of incidents"),
        ]

    async def failed(self) -> str:
        """Wait until one of the parts ends, which is a fault; its name and the reason."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        task = done.pop()
        problem = None if task.cancelled() else task.exception()
        log.error("%s has ended", task.get_name(), exc_info=problem)
        return f"ottla lag: {task.get_name()} has ended: {problem!r}"

    def end_requests(self) -> None:
        """Nothing to do: no request waits."""

    async def stop(self) -> None:
        """Send the messages that wait, for a moment, and end."""
        if self._tasks:
            await self._watching.notifier.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._watching.sampler.close()


class _Watching:
    """The parts of the service, put together; satisfies `Watched` of the HTTP API."""

    def __init__(self, settings: Settings) -> None:
        access = ClusterAccess(
            settings[names.BOOTSTRAP_SERVERS], settings.with_prefix(names.CLIENT_PREFIX), CLIENT_ID
        )
        try:
            access.require_common_properties()
            self.sampler = Sampler(access, names.rules_of(settings), names.sampler_options_of(settings))
        except ClientOptionError as problem:
            raise ServiceError(f"ottla lag: the settings client.*: {problem}") from None
        self.name: str = settings[names.CLUSTER_NAME]
        self.notifier = Notifier(self.name, _webhook(settings))
        self.exposition = Exposition([process_source("ottla lag serve"), self.families])
        self.described: Mapping[str, Any] = {
            "class-name": "kafka",
            "servers": [str(one) for one in access.addresses()],
            "client-profile": {
                "name": "",
                "client-id": CLIENT_ID,
                "kafka-version": "",
                "tls": None,
                "sasl": None,
            },
            "topic-refresh": settings[names.TOPIC_REFRESH_MS] / 1_000,
            "offset-refresh": settings[names.OFFSET_REFRESH_MS] / 1_000,
        }
        self._incidents = Incidents(names.notice_rules_of(settings), lambda: str(uuid.uuid4()))

    @property
    def tracker(self) -> Tracker:
        """All that is known of the cluster."""
        return self.sampler.tracker

    @property
    def snapshot(self) -> Snapshot | None:
        """The outcome of the last round that succeeded."""
        return self.sampler.snapshot

    def judged(self, snapshot: Snapshot) -> None:
        """Tell of the incidents that a round's verdicts begin or end."""
        notices = self._incidents.gone_but(snapshot.verdicts, snapshot.at_ms)
        for verdict in snapshot.verdicts.values():
            notice = self._incidents.judged(verdict, snapshot.at_ms)
            if notice is not None:
                notices.append(notice)
        for notice in notices:
            self.notifier.tell(notice)

    def verdict(self) -> Verdict:
        """Whether the cluster is read."""
        if self.sampler.problem is not None:
            return Verdict(False, f"the cluster can't be read: {self.sampler.problem}")
        if self.snapshot is None:
            return Verdict(False, "the cluster has not been read yet")
        return Verdict(True, f"the cluster was read in {self.snapshot.took_ms} ms")

    def families(self) -> Iterator[Family]:
        """All metrics of the watching."""
        return lag_families(self.sampler, self._incidents, self.notifier)


def _webhook(settings: Settings) -> Webhook | None:
    """Where incidents are told; None if in the log alone. Raises ConfigError for an address that can't be."""
    context = _tls_context(settings)
    url = settings[names.NOTIFIER_URL]
    if url is None:
        return None
    close = settings[names.NOTIFIER_URL_CLOSE] or url
    for setting, each in ((names.NOTIFIER_URL, url), (names.NOTIFIER_URL_CLOSE, close)):
        if not each.startswith(("http://", "https://")):
            raise settings.refusal(setting.name, f"{each!r} is not http://… or https://…")
    user_info = settings[names.NOTIFIER_USER_INFO]
    return Webhook(
        url,
        close,
        None if user_info is None else user_info.value,
        settings[names.NOTIFIER_TIMEOUT_MS] / 1_000,
        context,
    )


def _tls_context(settings: Settings) -> ssl.SSLContext | None:
    """Raises ConfigError for authorities that can't be read."""
    authorities = settings[names.NOTIFIER_CA]
    if authorities is None:
        return None
    try:
        return ssl.create_default_context(cafile=authorities)
    except OSError as problem:  # ssl.SSLError is one
        raise settings.refusal(names.NOTIFIER_CA.name, f"{authorities}: {problem}") from None
