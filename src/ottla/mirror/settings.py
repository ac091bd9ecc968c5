"""What all connectors of a flow are configured with, by MirrorMaker 2's names: clusters, names, clients.

The properties of a client are, later ones winning: `source.cluster.…` (or `target.cluster.…`), then those of
its kind, `consumer.…`, then those of its kind on that side, `source.consumer.…`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

from ottla.client.access import ClusterAccess
from ottla.client.java_names import without_listeners_tls
from ottla.config.errors import ConfigError
from ottla.config.setting import HIGH, LOW, Setting, boolean, class_name, long, string
from ottla.config.settings import Settings
from ottla.config.validators import OneOf, Rule, at_least, not_empty
from ottla.connect.data.java_regex import BadPattern
from ottla.connect.plugins.required import Required, require
from ottla.mirror.core.patterns import Patterns
from ottla.mirror.core.policies import DefaultPolicy, Flow, IdentityPolicy

PACKAGE: Final = "org.apache.kafka.connect.mirror."
DEFAULT_POLICY: Final = f"{PACKAGE}DefaultReplicationPolicy"
IDENTITY_POLICY: Final = f"{PACKAGE}IdentityReplicationPolicy"
BOOTSTRAP: Final = "bootstrap.servers"


class Side(enum.StrEnum):
    """One of a flow's two clusters."""

    SOURCE = "source"
    TARGET = "target"


class ClientKind(enum.StrEnum):
    """The kinds of Kafka clients, as prefixes of their properties name them."""

    CONSUMER = "consumer"
    PRODUCER = "producer"
    ADMIN = "admin"


def patterns_problem(value: Any) -> str | None:
    """The problem of a list of regular expressions; None if there is none."""
    try:
        Patterns.of(value or ())
    except BadPattern as problem:
        return f"Invalid regex: {problem}"
    return None


EXPRESSIONS: Final = Rule("regular expressions of Java", patterns_problem)

ENABLED: Final = boolean("enabled", True, "Whether the flow is copied at all.", importance=LOW)
SOURCE_ALIAS: Final = string.optional(
    "source.cluster.alias",
    "The name of the cluster that is copied, which topics on the target have in front.",
    Required(not_empty),
    importance=HIGH,
)
TARGET_ALIAS: Final = string(
    "target.cluster.alias", "target", "The name of the cluster that is copied to.", importance=HIGH
)
POLICY_CLASS: Final = class_name(
    "replication.policy.class",
    DEFAULT_POLICY,
    "How topics are called on the target: DefaultReplicationPolicy puts the source's alias in front, "
    "IdentityReplicationPolicy keeps the names.",
    OneOf((DEFAULT_POLICY, IDENTITY_POLICY)),
    importance=LOW,
)
SEPARATOR: Final = string(
    "replication.policy.separator", ".", "What stands between alias and topic.", not_empty, importance=LOW
)
INTERNAL_SEPARATOR: Final = boolean(
    "replication.policy.internal.topic.separator.enabled",
    True,
    "Whether the mirror's own topics have that separator too, in place of a dot.",
    importance=LOW,
)
ADMIN_TIMEOUT_MS: Final = long(
    "admin.timeout.ms",
    60_000,
    "How long a request about topics, settings or rights may take.",
    at_least(1),
    importance=LOW,
)
SYNCS_LOCATION: Final = string(
    "offset-syncs.topic.location",
    Side.SOURCE,
    "The cluster with the topic of offset syncs: source or target.",
    OneOf((Side.SOURCE, Side.TARGET)),
    importance=LOW,
)
EMIT_SYNCS: Final = boolean(
    "emit.offset-syncs.enabled",
    True,
    "Whether it is written down which offset on the target a record of the source has; checkpoints need it.",
    importance=LOW,
)

BASE: Final[tuple[Setting[Any], ...]] = (
    ENABLED,
    SOURCE_ALIAS,
    TARGET_ALIAS,
    POLICY_CLASS,
    SEPARATOR,
    INTERNAL_SEPARATOR,
    ADMIN_TIMEOUT_MS,
    SYNCS_LOCATION,
    EMIT_SYNCS,
)
"""What every connector of the mirror has in its table."""
PREFIXES: Final = tuple(
    f"{before}{kind}."
    for before in ("", *(f"{side}." for side in Side))
    for kind in ("cluster", *ClientKind)
    if before or kind != "cluster"
)
"""Names that begin so are properties of clients."""


def flow_of(settings: Settings) -> Flow:
    """The flow of a connector. Raises ConfigError."""
    source = require(settings, SOURCE_ALIAS)
    separator = settings[SEPARATOR]
    names = DefaultPolicy(separator, separator if settings[INTERNAL_SEPARATOR] else ".")
    identity = settings[POLICY_CLASS] == IDENTITY_POLICY
    return Flow(source, settings[TARGET_ALIAS], IdentityPolicy(source, names) if identity else names)


def client_properties(config: Mapping[str, str], side: Side, kind: ClientKind) -> dict[str, str]:
    """The properties that a configuration has for a kind of clients of one of the clusters."""
    found: dict[str, str] = {}
    for prefix in (f"{side}.cluster.", f"{kind}.", f"{side}.{kind}."):
        found |= {
            name.removeprefix(prefix): value
            for name, value in config.items()
            if name.startswith(prefix) and not name.startswith(f"{kind}.override.")
        }
    found.pop("alias", None)
    return found


def access_of(
    config: Mapping[str, str],
    side: Side,
    kind: ClientKind,
    client_id: str,
    fallback: ClusterAccess | None = None,
) -> ClusterAccess:
    """How clients of a kind reach one of the clusters. fallback: where the configuration names no servers.

    Raises ConfigError without servers.
    """
    properties = client_properties(config, side, kind)
    bootstrap = properties.pop(BOOTSTRAP, "").strip()
    if not bootstrap:
        if fallback is None:
            raise ConfigError(f'Missing required configuration "{side}.cluster.{BOOTSTRAP}".')
        properties = {**fallback.properties, **properties}
        bootstrap = fallback.bootstrap
    own = properties.pop("client.id", "")
    name = f"{own}|{client_id}" if own else client_id
    return ClusterAccess(bootstrap, without_listeners_tls(properties), client_id=name)
