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
  does); the client waits the longer for the next one.
- Share fetch: the bytes of its records, which go out in any case, because the member holds them by then.
- Changes of the metadata: the partitions that are
  created or deleted, by the active controller, for the client that asked a broker. That broker mutes the
  client's connection for the time that the controller's answer tells.
- Request time: see request_time.py.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.core.settings import broker_settings
from ottla.protocol.errors import ThrottlingQuotaExceeded

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig
    from ottla.broker.network.context import RequestContext, Session
    from ottla.core.image.image import MetadataImage
    from ottla.core.quotas.client_quotas import MutationQuotas, RateQuotas

#: The bytes of a request's header beside its client id: key, version, correlation id, length, tags.
_HEADER_BYTES: Final = 11


class ClientQuotas:
    """The quotas that this node's clients have, and what they have used of them."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._config = config
        self._loop = loop
        # Made for the first quota: a start without one does not wait for their modules.
        self._produce: RateQuotas
        self._fetch: RateQuotas
        self._request: RateQuotas
        self._mutations: MutationQuotas | None = None
        self.limits_produce = False
        """Whether any client's produce requests are limited."""
        self.limits_fetch = False
        """Whether any client's fetches are limited."""
        self.limits_request_time = False
        """Whether any client's requests are measured, see request_time.py."""

    def take_limits(self, image: MetadataImage) -> None:
        """Take over the quotas of the metadata."""
        quotas = image.client_quotas
        if self._mutations is None and not quotas:
            return
        if self._mutations is None:
            self._mutations = self._make()
        from ottla.core.quotas import entities

        limits = functools.partial(entities.client_limits, quotas)
        self._produce.set_limits(limits(entities.PRODUCER_BYTE_RATE))
        self._fetch.set_limits(limits(entities.CONSUMER_BYTE_RATE))
        self._request.set_limits(limits(entities.REQUEST_PERCENTAGE))
        self._mutations.set_limits(limits(entities.CONTROLLER_MUTATION_RATE))
        self.limits_produce = self._produce.enabled
        self.limits_fetch = self._fetch.enabled
        self.limits_request_time = self._request.enabled

    def _make(self) -> MutationQuotas:
        from ottla.core.quotas.client_quotas import MutationQuotas, RateQuotas

        config = self._config
        samples = config[broker_settings.QUOTA_WINDOW_NUM]
        window_ms = config[broker_settings.QUOTA_WINDOW_SIZE_SECONDS] * 1000
        self._produce = RateQuotas(samples, window_ms)
        self._fetch = RateQuotas(samples, window_ms)
        self._request = RateQuotas(samples, window_ms, longest_throttle_ms=window_ms)
        return MutationQuotas(
            config[broker_settings.CONTROLLER_QUOTA_WINDOW_NUM],
            config[broker_settings.CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS] * 1000,
        )

    # -- produce ------------------------------------------------------------------------------------

    def record_produce(self, context: RequestContext, body_bytes: int) -> None:
        """Count a produce request, and throttle its client if that is too much."""
        client_id = context.client_id or ""
        size_bytes = body_bytes + _HEADER_BYTES + len(client_id.encode())
        self.throttle(
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
        self.throttle(context.session, throttle_ms)
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

    def record_share_fetch(self, context: RequestContext, records_bytes: int) -> None:
        """Count the records of a share fetch. They go out in any case: the member holds them already."""
        user, client_id = context.session.user, context.client_id or ""
        self.throttle(context.session, self._fetch.record(user, client_id, records_bytes, self._now_ms()))

    # -- request time -------------------------------------------------------------------------------

    def throttle_for_request_time(self, session: Session, client_id: str) -> None:
        """Throttle a client whose requests so far have taken too much of the loop's time."""
        self.throttle(session, self._request.record(session.user, client_id, 0.0, self._now_ms()))

    def record_request_time(self, user: str, client_id: str, seconds: float) -> None:
        """Count the time that a request has taken so far."""
        self._request.record(user, client_id, 100 * seconds, self._now_ms())

    def exempt(self, session: Session) -> None:
        """Let a request go on that turned out to be another node's."""
        if session.throttle_ms and session.connection is not None:
            session.connection.unmute()

    # -- changes of the metadata ----------------------------------------------------------------------

    def mutations_of(self, context: RequestContext, strict_since: int) -> Mutations:
        """The account of the partitions that a request creates or deletes, at the active controller.

        From version `strict_since` of the request on, changes beyond the quota are refused (KIP-599); before,
        they are made, and the client is throttled.
        """
        return Mutations(self._mutations, context, context.api_version >= strict_since, self._now_ms)

    # -- throttling ---------------------------------------------------------------------------------

    def throttle(self, session: Session, throttle_ms: int) -> None:
        """Tell a client to wait with the answer under way, and mute its connection for that time."""
        if throttle_ms <= 0:
            return
        session.throttle_ms = max(session.throttle_ms, throttle_ms)
        if session.connection is not None:
            session.connection.mute(throttle_ms)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)


class Mutations:
    """The changes of the metadata by one request, against its client's quota."""

    __slots__ = ("_now_ms", "_quotas", "_strict", "_throttled_until_ms", "_user_and_client_id")

    def __init__(
        self,
        quotas: MutationQuotas | None,
        context: RequestContext,
        strict: bool,
        now_ms: Callable[[], int],
    ) -> None:
        # This node's own requests to itself came over no listener.
        self._quotas = quotas if context.session.listener_name else None
        self._user_and_client_id = (context.session.user, context.client_id or "")
        self._strict = strict
        self._now_ms = now_ms
        self._throttled_until_ms = 0

    def charge(self, partitions: int) -> None:
        """Count partitions. Raises ThrottlingQuotaExceeded if the request may not go beyond its quota."""
        if self._quotas is None:
            return
        now_ms = self._now_ms()
        use = self._quotas.admit if self._strict else self._quotas.record
        throttle_ms = use(*self._user_and_client_id, partitions, now_ms)
        if throttle_ms:
            self._throttled_until_ms = now_ms + throttle_ms
            if self._strict:
                raise ThrottlingQuotaExceeded()

    @property
    def throttle_ms(self) -> int:
        """The time for which the client is to be throttled from now on."""
        if not self._throttled_until_ms:
            return 0
        return max(0, self._throttled_until_ms - self._now_ms())
