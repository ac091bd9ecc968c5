"""Holds clients to their quotas on this node: counts their use, and mutes the connections of those above.

A client that is throttled gets its answer first, with the time that it is asked to wait (`throttle_time_ms`);
its connection is muted for that time, so a client that does not wait by itself waits all the same (KIP-219).
Requests that have arrived already wait too, and one without an answer (acks=0) mutes as well.

Where no quota is set, a request costs one look at `limits_produce`, `limits_fetch` or their like.

- Produce: the bytes of the request, header included, at its arrival. So the time for which a request waits
  for replicas counts as part of its throttle.
- Fetch: the bytes of the answer, when it is made. A throttled fetch is empty and counts nothing, and its
  session stays as it was: the same records are fetched again. A single batch that is larger than a whole
  window allows goes out all the same while the client keeps to its quota otherwise (in Apache Kafka it never
  does); the client waits the longer for the next one."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from ottla.core.quotas.client_quotas import RateQuotas
from ottla.core.quotas.entities import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    client_limits,
)
from ottla.core.settings import broker_settings

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig
    from ottla.broker.network.context import RequestContext, Session
    from ottla.core.image.image import MetadataImage

#: The bytes of a request's header beside its client id: key, version, correlation id, length, tags.
_HEADER_BYTES: Final = 11


class ClientQuotas:
    """The quotas that this node's clients have, and what they have used of them."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        samples = config[broker_settings.QUOTA_WINDOW_NUM]
        window_ms = config[broker_settings.QUOTA_WINDOW_SIZE_SECONDS] * 1000
        self._loop = loop
        self._produce = RateQuotas(samples, window_ms)
        self._fetch = RateQuotas(samples, window_ms)
        self._request = RateQuotas(samples, window_ms, longest_throttle_ms=window_ms)
        self.limits_produce = False
        """Whether any client's produce requests are limited."""
        self.limits_fetch = False
        """Whether any client's fetches are limited."""
        self.limits_request_time = False
        """Whether any client's requests are measured, see request_time.py."""

    def take_limits(self, image: MetadataImage) -> None:
        """Take over the quotas of the metadata."""
        quotas = image.client_quotas
        self._produce.set_limits(client_limits(quotas, PRODUCER_BYTE_RATE))
        self._fetch.set_limits(client_limits(quotas, CONSUMER_BYTE_RATE))
        self._request.set_limits(client_limits(quotas, REQUEST_PERCENTAGE))
        self.limits_produce = self._produce.enabled
        self.limits_fetch = self._fetch.enabled
        self.limits_request_time = self._request.enabled

    # -- produce ------------------------------------------------------------------------------------

    def record_produce(self, context: RequestContext, body_bytes: int) -> None:
        """Count a produce request, and throttle its client if that is too much."""
        client_id = context.client_id or ""
        size_bytes = body_bytes + _HEADER_BYTES + len(client_id.encode())
        self._throttle(
            context.session,
            self._produce.record(context.session.user, client_id, size_bytes, self._now_ms()),
        )

    # -- fetch --------------------------------------------------------------------------------------

    def most_fetched_at_once(self, context: RequestContext) -> int:
        """The most bytes of records that an answer may have."""
        most = self._fetch.most_at_once(context.session.user, context.client_id or "")
        return sys.maxsize if most is None else max(1, int(min(most, sys.maxsize)))

    def admit_fetch(self, context: RequestContext, records_bytes: int) -> bool:
        """Count the records of an answer. False: the client is throttled, and its answer must be empty."""
        user, client_id, now_ms = context.session.user, context.client_id or "", self._now_ms()
        throttle_ms = self._fetch.record(user, client_id, records_bytes, now_ms)
        if not throttle_ms:
            return True
        self._throttle(context.session, throttle_ms)
        self._fetch.take_back(user, client_id, records_bytes, now_ms)
        if records_bytes <= self.most_fetched_at_once(context):
            return False
        if self._fetch.record(user, client_id, 0, now_ms):
            return False
        self._fetch.record(user, client_id, records_bytes, now_ms)
        return True

    def record_fetch_overhead(self, context: RequestContext, count: int) -> None:
        """Count the bytes of an answer beside its records; they throttle later requests only."""
        self._fetch.record(context.session.user, context.client_id or "", count, self._now_ms())

    # -- request time -------------------------------------------------------------------------------

    def throttle_for_request_time(self, session: Session, client_id: str) -> None:
        """Throttle a client whose requests so far have taken too much of the loop's time."""
        self._throttle(session, self._request.record(session.user, client_id, 0.0, self._now_ms()))

    def record_request_time(self, user: str, client_id: str, seconds: float) -> None:
        """Count the time that a request has taken so far."""
        self._request.record(user, client_id, 100 * seconds, self._now_ms())

    def exempt(self, session: Session) -> None:
        """Let a request go on that turned out to be another node's."""
        if session.throttle_ms and session.connection is not None:
            session.connection.unmute()

    # -- throttling ---------------------------------------------------------------------------------

    def _throttle(self, session: Session, throttle_ms: int) -> None:
        if throttle_ms <= 0:
            return
        session.throttle_ms = max(session.throttle_ms, throttle_ms)
        if session.connection is not None:
            session.connection.mute(throttle_ms)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)
