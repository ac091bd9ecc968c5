"""The difference between two images: the delta of a node that was given a snapshot instead of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from ottla.core.image.image import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataDelta,
    MetadataImage,
    TopicImage,
)

if TYPE_CHECKING:
    from ottla.protocol.schema import Message

K = TypeVar("K")


def image_delta(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
    """The changes from `old` to `new`, as the records in between would have given them.

    A topic that was deleted and created again is both, by its two ids. A topic that was created and deleted
    in between is neither.
    """
    delta = MetadataDelta()
    for topic_id, topic in old.topics_by_id.items():
        if topic_id not in new.topics_by_id:
            delta.deleted_topics.append((topic_id, topic.name))
    for topic_id, topic in new.topics_by_id.items():
        before = old.topics_by_id.get(topic_id)
        if before is None:
            delta.created_topics.append((topic_id, topic.name))
        _compare_partitions(delta, before, topic)
    for resource in old.configs.keys() | new.configs.keys():
        if old.configs.get(resource) != new.configs.get(resource):
            _configs_changed(delta, new, *resource)
    for broker_id in sorted(old.brokers.keys() | new.brokers.keys()):
        if old.brokers.get(broker_id) != new.brokers.get(broker_id):
            delta.changed_brokers[broker_id] = None
    for controller_id in sorted(old.controllers.keys() | new.controllers.keys()):
        if old.controllers.get(controller_id) != new.controllers.get(controller_id):
            delta.changed_controllers[controller_id] = None
    delta.changed_acls = _differing(old.acls, new.acls)
    delta.changed_scram_credentials = _differing(old.scram_credentials, new.scram_credentials)
    delta.changed_delegation_tokens = _differing(old.delegation_tokens, new.delegation_tokens)
    delta.features_changed = old.features != new.features
    delta.quotas_changed = old.client_quotas != new.client_quotas
    return delta


def _differing(old: Mapping[K, Message], new: Mapping[K, Message]) -> dict[K, None]:
    """The keys whose records differ, those of the new image first."""
    changed = dict.fromkeys(key for key, record in new.items() if old.get(key) != record)
    changed.update(dict.fromkeys(key for key in old if key not in new))
    return changed


def _compare_partitions(delta: MetadataDelta, before: TopicImage | None, topic: TopicImage) -> None:
    for index, partition in topic.partitions.items():
        if before is None or before.partitions.get(index) != partition:
            delta.changed_partitions[(topic.topic_id, index)] = None


def _configs_changed(delta: MetadataDelta, new: MetadataImage, resource_type: int, name: str) -> None:
    if resource_type == TOPIC_RESOURCE and name in new.topics:
        delta.changed_topic_configs[name] = None
    elif resource_type == BROKER_RESOURCE:
        delta.broker_configs_changed = True
    elif resource_type == GROUP_RESOURCE:
        delta.changed_group_configs[name] = None
