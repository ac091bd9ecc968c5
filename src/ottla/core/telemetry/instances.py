"""Client instances (KIP-714): the metrics each is asked for, the time of its requests, and which are taken.

Requests come in, a subscription or a KafkaError comes out, as from Apache Kafka 4.4. Times are in
milliseconds of any clock that does not go back.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from ottla.core.telemetry.subscriptions import (
    ClientProperties,
    RequestedMetrics,
    Subscription,
    requested_metrics,
)
from ottla.protocol.compression import Codec
from ottla.protocol.errors import (
    ErrorCode,
    InvalidRequest,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)

MAX_INSTANCES: Final = 16_384
SHORTEST_LIFE_MS: Final = 60_000
"""How long an instance is kept after its last request, at the least."""
LIFE_INTERVALS: Final = 3
"""How many push intervals it is kept, if that is longer."""
ACCEPTED_COMPRESSION_TYPES: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""The codecs that clients are told, the preferred first."""

NO_UUID: Final = UUID(int=0)
_CODECS: Final = frozenset(Codec)
_RESERVED: Final = frozenset({NO_UUID, UUID(int=1)})
_NEVER_MS: Final = -(1 << 62)


class ClientAddress(NamedTuple):
    """The properties of a client that its connection tells; a software without a name is `unknown`."""

    client_id: str | None
    software_name: str
    software_version: str
    host: str
    port: int | None


@dataclass(slots=True)
class ClientInstance:
    """One client that pushes metrics, or may."""

    instance_id: UUID
    client: ClientProperties
    requested: RequestedMetrics
    subscription_id: int
    version: int
    """The version of all subscriptions that `requested` was computed from."""
    expires_at_ms: int
    last_get_ms: int = _NEVER_MS
    last_push_ms: int = _NEVER_MS
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE

    def takes_get(self, now_ms: int) -> bool:
        """Whether the push interval is over, which is then begun anew."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) < self.requested.push_interval_ms:
            return False
        self.last_get_ms = now_ms
        return True

    def takes_push(self, now_ms: int) -> bool:
        """Whether the interval since the last push is over; a subscription does not begin it anew.

        So the first push after a subscription may come early: clients spread them.
        """
        if now_ms - self.last_push_ms < self.requested.push_interval_ms:
            return False
        self.last_push_ms = now_ms
        return True


class Push(NamedTuple):
    """A PushTelemetry request without its metrics."""

    instance_id: UUID
    subscription_id: int
    terminating: bool
    compression_type: int
    size_bytes: int


@dataclass(slots=True)
class TelemetryCounts:
    """The figures that Kafka's broker has about client telemetry, since the start."""

    unknown_subscription_requests: int = 0
    throttled_requests: int = 0
    pushes: int = 0
    refused_payloads: int = 0


class ClientInstances:
    """The instances of one broker's clients: MAX_INSTANCES at most, those without a request go first."""

    def __init__(self, max_bytes: int, capacity: int = MAX_INSTANCES) -> None:
        """max_bytes: the most of one push (telemetry.max.bytes)."""
        self.counts = TelemetryCounts()
        self._max_bytes = max_bytes
        self._capacity = capacity
        self._subscriptions: Mapping[str, Subscription] = {}
        self._version = 0
        self._by_id: OrderedDict[UUID, ClientInstance] = OrderedDict()
        self._by_connection: dict[Hashable, UUID] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, instance_id: UUID) -> bool:
        return instance_id in self._by_id

    def take_subscriptions(self, subscriptions: Mapping[str, Subscription]) -> None:
        """Ask clients for the metrics of these from now on."""
        self._subscriptions = subscriptions
        self._version += 1

    def subscribe(
        self,
        instance_id: UUID,
        address: ClientAddress,
        connection: Hashable,
        now_ms: int,
        new_id: Callable[[], UUID],
    ) -> ClientInstance:
        """The instance of a client that asks for its subscription; one without an id gets `new_id()`.

        Raises ThrottlingQuotaExceeded for a client that asks too early.
        """
        if instance_id == NO_UUID:
            instance_id = new_id()
            while instance_id in _RESERVED or instance_id in self._by_id:
                instance_id = new_id()
        instance = self._instance(instance_id, address, connection, now_ms)
        may_ask_again = instance.last_error in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )
        if not instance.takes_get(now_ms) and not may_ask_again:
            self.counts.throttled_requests += 1
            raise ThrottlingQuotaExceeded()
        instance.last_error = ErrorCode.NONE
        return instance

    def admit(self, push: Push, address: ClientAddress, connection: Hashable, now_ms: int) -> ClientInstance:
        """The instance of a client whose push is taken. Raises KafkaError for one that is not."""
        if push.instance_id in _RESERVED:
            raise InvalidRequest(f"{push.instance_id} is not the id of a client instance")
        instance = self._instance(push.instance_id, address, connection, now_ms)
        try:
            self._check(push, instance, now_ms)
        except KafkaError as error:
            instance.last_error = error.code
            raise
        finally:
            instance.terminating = push.terminating
        return instance

    def _check(self, push: Push, instance: ClientInstance, now_ms: int) -> None:
        if instance.terminating:
            raise InvalidRequest("The client has said that its former push was the last one.")
        if not instance.takes_push(now_ms) and not push.terminating:
            self.counts.throttled_requests += 1
            raise ThrottlingQuotaExceeded()
        if push.subscription_id != instance.subscription_id:
            self.counts.unknown_subscription_requests += 1
            raise UnknownSubscriptionId()
        if push.compression_type not in _CODECS:
            raise UnsupportedCompressionType()
        if push.size_bytes > self._max_bytes:
            raise TelemetryTooLarge()

    def refuse_payload(self, instance: ClientInstance, code: ErrorCode) -> None:
        """Note that the metrics of a push that was admitted can't be used."""
        self.counts.refused_payloads += 1
        instance.last_error = code

    def take_payload(self, instance: ClientInstance) -> None:
        """Note that the metrics of a push were taken."""
        self.counts.pushes += 1
        instance.last_error = ErrorCode.NONE

    def connection_closed(self, connection: Hashable) -> None:
        """Forget the instance that was last made by a connection: it may push again at once by a new one."""
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self._by_id.pop(instance_id, None)

    def expire(self, now_ms: int) -> None:
        """Forget the instances that have not asked for long."""
        for instance in [each for each in self._by_id.values() if each.expires_at_ms <= now_ms]:
            del self._by_id[instance.instance_id]

    # -- the instances ------------------------------------------------------------------------------

    def _instance(
        self, instance_id: UUID, address: ClientAddress, connection: Hashable, now_ms: int
    ) -> ClientInstance:
        instance = self._by_id.get(instance_id)
        if instance is None:
            instance = self._made(instance_id, _properties(instance_id, address), connection)
            if len(self._by_id) > self._capacity:
                self._by_id.popitem(last=False)
        elif instance.version < self._version:
            instance = self._made(instance_id, instance.client, connection)
        self._by_id.move_to_end(instance_id)
        instance.expires_at_ms = now_ms + instance_life_ms(instance)
        return instance

    def _made(self, instance_id: UUID, client: ClientProperties, connection: Hashable) -> ClientInstance:
        requested = requested_metrics(self._subscriptions, client)
        instance = self._by_id[instance_id] = ClientInstance(
            instance_id, client, requested, requested.subscription_id(instance_id), self._version, 0
        )
        self._by_connection[connection] = instance_id
        return instance


def instance_life_ms(instance: ClientInstance) -> int:
    """How long an instance is kept after a request."""
    return max(SHORTEST_LIFE_MS, LIFE_INTERVALS * instance.requested.push_interval_ms)


def _properties(instance_id: UUID, address: ClientAddress) -> ClientProperties:
    return ClientProperties(
        base64.urlsafe_b64encode(instance_id.bytes).rstrip(b"=").decode(),
        address.client_id,
        address.software_name,
        address.software_version,
        address.host,
        None if address.port is None else str(address.port),
    )
