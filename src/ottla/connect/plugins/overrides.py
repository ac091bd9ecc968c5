"""Which properties of its Kafka clients a connector may set: connector.client.config.override.policy."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ottla.config.unsupported import is_secret
from ottla.connect.plugins.definition import Value

HIDDEN: Final = "[hidden]"
PRODUCER: Final = "producer.override."
CONSUMER: Final = "consumer.override."
ADMIN: Final = "admin.override."
_PRINCIPAL: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


class Policy(enum.StrEnum):
    """The policies, by Connect's names."""

    ALL = "All"
    NONE = "None"
    PRINCIPAL = "Principal"
    ALLOWLIST = "Allowlist"


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """A worker's policy. allowlist: the properties that Policy.ALLOWLIST lets through."""

    policy: Policy = Policy.ALL
    allowlist: frozenset[str] = frozenset()

    def allows(self, name: str) -> bool:
        """Whether a connector may set this property of a client."""
        match self.policy:
            case Policy.ALL:
                return True
            case Policy.NONE:
                return False
            case Policy.PRINCIPAL:
                return name in _PRINCIPAL
            case Policy.ALLOWLIST:
                return name in self.allowlist

    def judged(self, prefix: str, key: str, text: str | None) -> Value:
        """The value of a property that a connector sets."""
        name = key.removeprefix(prefix)
        shown = HIDDEN if text is not None and is_secret(name) else text
        if self.allows(name):
            return Value(key, shown)
        refusal = f"The '{self.policy}' policy does not allow '{name}' to be overridden"
        return Value(key, shown, [f"{refusal} in the connector configuration."])


def prefixes_of(is_sink: bool, *, dead_letters: bool, topic_creation: bool) -> Iterable[str]:
    """The prefixes of the clients that a connector has."""
    if not is_sink or dead_letters:
        yield PRODUCER
    if dead_letters if is_sink else topic_creation:
        yield ADMIN
    if is_sink:
        yield CONSUMER
