"""The cluster as group shards know it: its topics with racks, and the settings of the broker and of groups.

Theory of operation. The metadata's image changes in place, a shard's view is a value. So names that changed
are gathered here, and the view is made from the one before when a shard needs it: nothing is made while this
broker coordinates no group, and a change costs the topics that changed and a copy of two dictionaries (20 us
with 2,000 topics). A topic that lost its leader looks the same to a group and is no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.config.setting import InvalidValue
from ottla.core.coordination.api import Moment
from ottla.core.decisions.config_changes import group_setting_bounds
from ottla.core.groups.api import SettingsChanged, TopicsChanged
from ottla.core.groups.settings import OVERRIDABLE, GroupSettings, Settings, SettingValue
from ottla.core.groups.shard import Shard
from ottla.core.groups.topics import NO_TOPICS, TopicDescription, TopicsView
from ottla.core.image.image import GROUP_RESOURCE, MetadataDelta, TopicImage
from ottla.core.settings import broker_settings, group_settings
from ottla.core.settings.broker_settings import BROKER_SETTINGS

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig
    from ottla.core.image.image import MetadataImage


MakeEvent = Callable[[Moment], TopicsChanged | SettingsChanged]

NO_RACKS: frozenset[str] = frozenset()


class GroupInputs:
    """The topics and settings of now, and the events that tell group shards of their changes."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._topics = TopicsFollower(image)
        self._settings = SettingsFollower(config, image)

    def new_shard(self, at: Moment) -> Shard:
        """A shard that knows the topics and settings of now, to replay the log into."""
        shard = Shard(self._settings.settings)
        topics, _ = self._topics.take_changes()
        shard.step(TopicsChanged(at, topics, frozenset(topics.names())))
        return shard

    def changes(self, delta: MetadataDelta, has_shards: bool) -> list[MakeEvent]:
        """The events that tell the shards of a change of the metadata, if there are shards."""
        events: list[MakeEvent] = []
        self._topics.follow(delta)
        if has_shards:
            topics, changed = self._topics.take_changes()
            if changed:
                events.append(lambda at: TopicsChanged(at, topics, changed))
        if self._settings.follow(delta):
            settings = self._settings.settings
            events.append(lambda at: SettingsChanged(at, settings))
        return events


class TopicsFollower:
    """Makes the TopicsView of an image, again and again."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._view = NO_TOPICS
        self._racks = _racks(image)
        self._dirty: dict[str, None] = dict.fromkeys(image.topics)

    def follow(self, delta: MetadataDelta) -> None:
        """Note what `delta` may have changed."""
        dirty = self._dirty
        for _, name in delta.deleted_topics:
            dirty[name] = None
        for _, name in delta.created_topics:
            dirty[name] = None
        for topic_id, _ in delta.changed_partitions:
            topic = self._image.topics_by_id.get(topic_id)
            if topic is not None:
                dirty[topic.name] = None
        if delta.changed_brokers:
            racks = _racks(self._image)
            if racks != self._racks:
                self._racks = racks
                dirty.update(dict.fromkeys(self._image.topics))

    def take_changes(self) -> tuple[TopicsView, frozenset[str]]:
        """The view as of now, and the topics that differ from the one before."""
        if not self._dirty:
            return self._view, frozenset()
        dirty, self._dirty = self._dirty, {}
        changed: dict[str, TopicDescription | None] = {}
        for name in dirty:
            topic = self._image.topics.get(name)
            description = None if topic is None else self._describe(topic)
            if description != self._view.named(name):
                changed[name] = description
        if changed:
            self._view = self._view.with_changes(changed)
        return self._view, frozenset(changed)

    def _describe(self, topic: TopicImage) -> TopicDescription:
        racks = self._racks
        partitions = topic.partitions
        if not racks:
            return TopicDescription(topic.topic_id, topic.name, (NO_RACKS,) * len(partitions))
        return TopicDescription(
            topic.topic_id,
            topic.name,
            tuple(
                frozenset(racks[replica] for replica in partitions[index].replicas if replica in racks)
                for index in sorted(partitions)
            ),
        )


class SettingsFollower:
    """Makes the Settings of an image and a configuration, again when they change."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._config = config
        self._image = image
        self._overrides: dict[str, dict[str, SettingValue]] = {}
        self._take_over(name for kind, name in image.configs if kind == GROUP_RESOURCE)
        self.settings = Settings(group_settings_of(config), self._overrides)

    def follow(self, delta: MetadataDelta) -> bool:
        """Take over the changes of `delta`. Returns whether `settings` are new."""
        if not delta.broker_configs_changed and not delta.changed_group_configs:
            return False
        broker = self.settings.broker
        if delta.broker_configs_changed:
            broker = group_settings_of(self._config)
        if not delta.changed_group_configs and broker == self.settings.broker:
            return False
        self._overrides = dict(self._overrides)
        self._take_over(delta.changed_group_configs)
        self.settings = Settings(broker, self._overrides)
        return True

    def _take_over(self, group_ids: Iterable[str]) -> None:
        for group_id in group_ids:
            values = _parsed(self._image.configs.get((GROUP_RESOURCE, group_id), {}), self._config)
            if values:
                self._overrides[group_id] = values
            else:
                self._overrides.pop(group_id, None)


def _racks(image: MetadataImage) -> dict[int, str]:
    return {broker_id: broker.rack for broker_id, broker in image.brokers.items() if broker.rack is not None}


def _parsed(texts: dict[str, str], config: BrokerConfig) -> dict[str, SettingValue]:
    """A group's own values that a shard works by; values that don't parse are passed over.

    A value that was set when the broker's limits were wider counts as the limit.
    """
    values: dict[str, SettingValue] = {}
    for name, text in texts.items():
        if name in OVERRIDABLE:
            try:
                value: SettingValue = group_settings.GROUP_SETTINGS[name].parse(text)
            except InvalidValue:
                continue
            if isinstance(value, int):
                smallest, largest = group_setting_bounds(name)
                if smallest is not None:
                    value = max(value, config[smallest])
                if largest is not None:
                    value = min(value, config[largest])
            if name == group_settings.STREAMS_ASSIGNOR_NAME.name and (
                value not in config[broker_settings.GROUP_STREAMS_ASSIGNORS]
            ):
                continue  # The broker's assignors have changed: the first of them is used.
            values[name] = value
    return values


def group_settings_of(config: BrokerConfig) -> GroupSettings:
    """The broker's settings for groups."""
    return GroupSettings(
        initial_rebalance_delay_ms=config[broker_settings.GROUP_INITIAL_REBALANCE_DELAY_MS],
        min_session_timeout_ms=config[broker_settings.GROUP_MIN_SESSION_TIMEOUT_MS],
        max_session_timeout_ms=config[broker_settings.GROUP_MAX_SESSION_TIMEOUT_MS],
        max_size=config[broker_settings.GROUP_MAX_SIZE],
        offset_metadata_max_bytes=config[broker_settings.OFFSET_METADATA_MAX_BYTES],
        offsets_retention_ms=config[broker_settings.OFFSETS_RETENTION_MINUTES] * 60_000,
        offsets_retention_check_interval_ms=config[broker_settings.OFFSETS_RETENTION_CHECK_INTERVAL_MS],
        commit_timeout_ms=config[broker_settings.OFFSETS_COMMIT_TIMEOUT_MS],
        **_of_kinds(config),
    )


def _of_kinds(config: BrokerConfig) -> dict[str, Any]:
    """The settings of each of the newer kinds of groups."""
    return {
        "consumer_session_timeout_ms": config[broker_settings.GROUP_CONSUMER_SESSION_TIMEOUT_MS],
        "consumer_heartbeat_interval_ms": config[broker_settings.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS],
        "consumer_assignment_interval_ms": _assignment_interval_ms(config, "consumer"),
        "consumer_max_size": config[broker_settings.GROUP_CONSUMER_MAX_SIZE],
        "consumer_assignors": config[broker_settings.GROUP_CONSUMER_ASSIGNORS],
        "consumer_migration_policy": config[broker_settings.GROUP_CONSUMER_MIGRATION_POLICY].lower(),
        "consumer_regex_refresh_interval_ms": config[
            broker_settings.GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS
        ],
        "share_session_timeout_ms": config[broker_settings.GROUP_SHARE_SESSION_TIMEOUT_MS],
        "share_heartbeat_interval_ms": config[broker_settings.GROUP_SHARE_HEARTBEAT_INTERVAL_MS],
        "share_assignment_interval_ms": _assignment_interval_ms(config, "share"),
        "share_max_size": config[broker_settings.GROUP_SHARE_MAX_SIZE],
        "share_initialize_retry_interval_ms": config[
            broker_settings.GROUP_SHARE_INITIALIZE_RETRY_INTERVAL_MS
        ],
        "streams_session_timeout_ms": config[broker_settings.GROUP_STREAMS_SESSION_TIMEOUT_MS],
        "streams_heartbeat_interval_ms": config[broker_settings.GROUP_STREAMS_HEARTBEAT_INTERVAL_MS],
        "streams_assignment_interval_ms": _assignment_interval_ms(config, "streams"),
        "streams_max_size": config[broker_settings.GROUP_STREAMS_MAX_SIZE],
        "streams_num_standby_replicas": config[broker_settings.GROUP_STREAMS_NUM_STANDBY_REPLICAS],
        "streams_initial_rebalance_delay_ms": config[
            broker_settings.GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS
        ],
        "streams_assignor": config[broker_settings.GROUP_STREAMS_ASSIGNORS][0],
        "streams_rack_aware_assignment_tags": config[
            broker_settings.GROUP_STREAMS_RACK_AWARE_ASSIGNMENT_TAGS
        ],
        "streams_task_offset_interval_ms": config[broker_settings.GROUP_STREAMS_TASK_OFFSET_INTERVAL_MS],
        "streams_acceptable_recovery_lag": config[broker_settings.GROUP_STREAMS_ACCEPTABLE_RECOVERY_LAG],
        "streams_keeps_topology_descriptions": config[
            broker_settings.GROUP_STREAMS_TOPOLOGY_DESCRIPTION_PLUGIN_CLASS
        ]
        is not None,
    }


def _assignment_interval_ms(config: BrokerConfig, protocol: str) -> int:
    """The interval, which may change while the broker runs, within two bounds that may not."""
    wanted, smallest, largest = (
        config[BROKER_SETTINGS[f"group.{protocol}.{bound}assignment.interval.ms"]]
        for bound in ("", "min.", "max.")
    )
    return int(max(smallest, min(wanted, largest)))
