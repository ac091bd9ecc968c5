"""Subscriptions to clients' metrics (KIP-714): the clients of each, the metrics asked of a client.

A subscription is a client metrics resource of the metadata. A client gets the metrics of all that match it,
at the shortest of their intervals. The id of that is a checksum of the metrics as Java prints a HashSet, so
the order of a HashSet is made again here: a client may ask one broker, and push to another of Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.config.setting import InvalidValue, Setting
from ottla.core.coordination.partitioning import java_string_hash
from ottla.core.coordination.regex import InvalidRegex, Regex
from ottla.core.settings import client_metrics_settings
from ottla.protocol.crc import crc32c

ALL_METRICS: Final = "*"
_JAVA_TRIMMED: Final = "".join(map(chr, range(0x21)))
_JAVA_FIRST_BINS: Final = 16
_JAVA_LOAD: Final = 0.75


class InvalidPattern(ValueError):
    """A pattern of `match` that is not `key=expression`; the text is the pattern."""


class ClientProperties(NamedTuple):
    """The properties of a client that patterns are matched with; None where the client has none."""

    client_instance_id: str
    client_id: str | None
    client_software_name: str | None
    client_software_version: str | None
    client_source_address: str | None
    client_source_port: str | None


def parse_match(patterns: Iterable[str]) -> dict[str, Regex]:
    """The expressions of `match` by the property that each is about; the last of a property counts.

    Expressions are RE2's, which are matched in linear time: clients choose the texts. Java's look-around and
    back references are refused. Raises InvalidPattern.
    """
    found: dict[str, Regex] = {}
    for pattern in patterns:
        # Java's String.split drops empty parts at the end.
        parts = pattern.rstrip("=").split("=") if "=" in pattern else []
        key = parts[0].strip(_JAVA_TRIMMED) if parts else ""
        if len(parts) != 2 or key not in client_metrics_settings.MATCH_KEYS:
            raise InvalidPattern(pattern)
        try:
            found[key] = Regex(parts[1].strip(_JAVA_TRIMMED))
        except InvalidRegex:
            raise InvalidPattern(pattern) from None
    return found


@dataclass(frozen=True, slots=True)
class Subscription:
    """One client metrics resource."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Regex]

    @classmethod
    def read(cls, values: Mapping[str, str]) -> Subscription:
        """The subscription of a resource with these values. Raises InvalidValue or InvalidPattern."""

        def value(setting: Setting[Any]) -> Any:
            text = values.get(setting.name)
            return setting.default if text is None else setting.parse(text)

        metrics = value(client_metrics_settings.METRICS)
        return cls(
            tuple(java_set_order(metrics, at_least=len(metrics))),
            value(client_metrics_settings.INTERVAL_MS),
            parse_match(value(client_metrics_settings.MATCH)),
        )

    def matches(self, client: ClientProperties) -> bool:
        """Whether every expression matches; one about a property that the client does not have does not."""
        for key, expression in self.match.items():
            text = getattr(client, key)
            if text is None or not expression.matches(text):
                return False
        return True


class RequestedMetrics(NamedTuple):
    """The metrics that one client is asked for. metrics: prefixes of names, in Kafka's order."""

    metrics: tuple[str, ...]
    push_interval_ms: int

    def subscription_id(self, client_instance_id: UUID) -> int:
        """The id of these metrics for a client: 32 bits with a sign."""
        printed = f"[{', '.join(self.metrics)}]{self.push_interval_ms}".encode()
        return _signed(crc32c(printed) ^ _java_uuid_hash(client_instance_id))


def requested_metrics(
    subscriptions: Mapping[str, Subscription], client: ClientProperties
) -> RequestedMetrics:
    """The metrics of all subscriptions (by name) that match a client."""
    metrics: list[str] = []
    interval_ms = client_metrics_settings.INTERVAL_MS.default
    for name in java_set_order(subscriptions):
        subscription = subscriptions[name]
        if subscription.matches(client):
            metrics.extend(subscription.metrics)
            interval_ms = min(interval_ms, subscription.interval_ms)
    if ALL_METRICS in metrics:
        return RequestedMetrics((ALL_METRICS,), interval_ms)
    return RequestedMetrics(tuple(java_set_order(metrics)), interval_ms)


def read_subscriptions(
    resources: Mapping[str, Mapping[str, str]],
) -> tuple[dict[str, Subscription], list[str]]:
    """The subscriptions by name, and the names of those whose values are not understood here.

    Such values were written by Kafka, or by a newer version: the subscription matches no client.
    """
    found: dict[str, Subscription] = {}
    unusable: list[str] = []
    for name, values in resources.items():
        try:
            found[name] = Subscription.read(values)
        except (InvalidValue, InvalidPattern):
            unusable.append(name)
    return found, unusable


def java_set_order(texts: Iterable[str], at_least: int = 0) -> Iterator[str]:
    """The texts, each once, in the order of a Java HashSet to which they are added one by one.

    at_least: how many the set was made for. Sets with eight texts in one bin, which Java keeps as a tree, may
    come out in another order.
    """
    hashes = {text: java_string_hash(text) & 0xFFFF_FFFF for text in texts}
    bins = _JAVA_FIRST_BINS
    while bins * _JAVA_LOAD < len(hashes) or bins < int(at_least / _JAVA_LOAD) + 1:
        bins *= 2
    # Sorting is stable: within a bin, the order is that of adding.
    return iter(sorted(hashes, key=lambda text: (hashes[text] ^ hashes[text] >> 16) & bins - 1))


def _java_uuid_hash(value: UUID) -> int:
    both = (value.int >> 64) ^ (value.int & 0xFFFF_FFFF_FFFF_FFFF)
    return (both >> 32) ^ (both & 0xFFFF_FFFF)


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number
