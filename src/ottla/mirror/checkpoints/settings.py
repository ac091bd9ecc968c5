"""The settings of MirrorCheckpoint and MirrorHeartbeat, by MirrorMaker 2's names."""

from __future__ import annotations

from typing import Final

from ottla.config.setting import (
    HIGH,
    LOW,
    Table,
    boolean,
    by_name,
    class_name,
    long,
    short,
    string_list,
)
from ottla.config.settings import Settings
from ottla.config.validators import OneOf, at_least
from ottla.mirror import settings as flow_settings
from ottla.mirror.core.patterns import Patterns, Selection
from ottla.mirror.settings import EXPRESSIONS, PACKAGE, PREFIXES

GROUP_FILTER_NAME: Final = f"{PACKAGE}DefaultGroupFilter"

GROUPS: Final = string_list(
    "groups", (".*",), "Groups to follow: names and regular expressions.", EXPRESSIONS, importance=HIGH
)
GROUPS_EXCLUDE: Final = string_list(
    "groups.exclude",
    ("console-consumer-.*", "connect-.*", "__.*"),
    "Groups that are not followed; this goes before `groups`.",
    EXPRESSIONS,
    importance=HIGH,
)
GROUP_FILTER: Final = class_name(
    "group.filter.class",
    GROUP_FILTER_NAME,
    "Selects groups; there is this one.",
    OneOf((GROUP_FILTER_NAME,)),
    importance=LOW,
)
REFRESH_GROUPS: Final = boolean(
    "refresh.groups.enabled", True, "Whether new groups of the source are looked for.", importance=LOW
)
REFRESH_GROUPS_SECONDS: Final = long(
    "refresh.groups.interval.seconds", 600, "How often that is done.", at_least(1), importance=LOW
)
EMIT_CHECKPOINTS: Final = boolean(
    "emit.checkpoints.enabled",
    True,
    "Whether the places of groups are written to the target, translated.",
    importance=LOW,
)
EMIT_CHECKPOINTS_SECONDS: Final = long(
    "emit.checkpoints.interval.seconds", 60, "How often that is done.", at_least(1), importance=LOW
)
CHECKPOINTS_REPLICAS: Final = short(
    "checkpoints.topic.replication.factor",
    3,
    "The replicas of the topic of checkpoints.",
    at_least(-1),
    importance=LOW,
)
SYNC_OFFSETS: Final = boolean(
    "sync.group.offsets.enabled",
    False,
    "Whether the offsets of groups without members on the target are set to the translated ones.",
    importance=LOW,
)
SYNC_OFFSETS_SECONDS: Final = long(
    "sync.group.offsets.interval.seconds", 60, "How often that is done.", at_least(1), importance=LOW
)

EMIT_HEARTBEATS: Final = boolean(
    "emit.heartbeats.enabled", True, "Whether heartbeats of the flow are written.", importance=LOW
)
EMIT_HEARTBEATS_SECONDS: Final = long(
    "emit.heartbeats.interval.seconds", 1, "How often that is done.", at_least(1), importance=LOW
)
HEARTBEATS_REPLICAS: Final = short(
    "heartbeats.topic.replication.factor",
    3,
    "The replicas of the topic of heartbeats.",
    at_least(-1),
    importance=LOW,
)

_HEARTBEAT: Final = (EMIT_HEARTBEATS, EMIT_HEARTBEATS_SECONDS, HEARTBEATS_REPLICAS)
CHECKPOINT_TABLE: Final = Table(
    "MirrorCheckpoint",
    by_name((*flow_settings.BASE, *(each for each in globals().values() if each not in _HEARTBEAT))),
    prefixes=PREFIXES,
)
HEARTBEAT_TABLE: Final = Table(
    "MirrorHeartbeat", by_name((*flow_settings.BASE, *_HEARTBEAT)), prefixes=PREFIXES
)


def groups_of(settings: Settings) -> Selection:
    """The groups of a connector, whose patterns were checked."""
    return Selection(Patterns.of(settings[GROUPS]), Patterns.of(settings[GROUPS_EXCLUDE]))
