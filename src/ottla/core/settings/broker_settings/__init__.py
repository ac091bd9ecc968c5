"""Every setting of a broker: as constants (`NUM_PARTITIONS` is `num.partitions`) and as one table.

One module a concern; this one gathers them, so that users write `config[broker_settings.NUM_PARTITIONS]`.
"""

from __future__ import annotations

from typing import Any

from ottla.config.setting import CLUSTER_WIDE, PER_BROKER, Setting, UpdateMode, by_name
from ottla.core.settings.broker_settings.groups import *  # noqa: F403
from ottla.core.settings.broker_settings.log import *  # noqa: F403
from ottla.core.settings.broker_settings.quorum import *  # noqa: F403
from ottla.core.settings.broker_settings.quotas import *  # noqa: F403
from ottla.core.settings.broker_settings.remote_log import *  # noqa: F403
from ottla.core.settings.broker_settings.replication import *  # noqa: F403
from ottla.core.settings.broker_settings.security import *  # noqa: F403
from ottla.core.settings.broker_settings.server import *  # noqa: F403
from ottla.core.settings.broker_settings.share import *  # noqa: F403
from ottla.core.settings.broker_settings.topics import *  # noqa: F403
from ottla.core.settings.broker_settings.transactions import *  # noqa: F403

BROKER_SETTINGS: dict[str, Setting[Any]] = by_name(globals().values())

_ROLL = ("log.roll.ms", "log.roll.hours")
_ROLL_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")

#: Settings with the same meaning in different units; the first that has a value wins.
SAME_SETTINGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_ROLL, _ROLL),
    **dict.fromkeys(_ROLL_JITTER, _ROLL_JITTER),
    **dict.fromkeys(_RETENTION, _RETENTION),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}

#: Settings of replication's throttles exist as dynamic ones only, and not in `server.properties`.
DYNAMIC_ONLY = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)

LISTENER_PREFIX = "listener.name."


def without_listener(name: str) -> str:
    """`ssl.keystore.type` of `listener.name.internal.ssl.keystore.type`, else `name` itself.

    A mechanism between the two (`listener.name.internal.scram-sha-256.sasl.jaas.config`) goes too.
    """
    if not name.startswith(LISTENER_PREFIX):
        return name
    rest = name[len(LISTENER_PREFIX) :].partition(".")[2]
    if rest in BROKER_SETTINGS:
        return rest
    inner = rest.partition(".")[2]
    return inner if inner in BROKER_SETTINGS else name


def update_mode(name: str) -> UpdateMode:
    """How the setting may be changed while brokers run; a listener's own setting only per broker."""
    base = without_listener(name)
    setting = BROKER_SETTINGS.get(base)
    if setting is None:
        return UpdateMode.READ_ONLY
    if base != name and setting.update is CLUSTER_WIDE:
        return PER_BROKER
    return setting.update
