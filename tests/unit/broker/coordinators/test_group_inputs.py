"""What group shards are told of topics and settings: what changed, and nothing while there are none."""

from __future__ import annotations

import uuid

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.coordinators.group_inputs import GroupInputs, SettingsFollower, TopicsFollower
from ottla.core.coordination.api import Moment
from ottla.core.groups.api import SettingsChanged, TopicsChanged
from ottla.core.image.image import BROKER_RESOURCE, GROUP_RESOURCE, MetadataDelta, MetadataImage
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from ottla.protocol.records.partition_record import PartitionRecord
from ottla.protocol.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from ottla.protocol.records.remove_topic_record import RemoveTopicRecord
from ottla.protocol.records.topic_record import TopicRecord
from ottla.protocol.schema import Message
from support.core import metadata

ORDERS, BILLS = uuid.UUID(int=77), uuid.UUID(int=78)
AT = Moment(0, 0)


def apply(image: MetadataImage, *records: Message) -> MetadataDelta:
    return metadata.apply(image, records)


def broker(broker_id: int, rack: str | None) -> Message:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=1,
        incarnation_id=uuid.UUID(int=broker_id),
        end_points=[BrokerEndpoint(name="P", host="h", port=1, security_protocol=0)],
        rack=rack,
    )


def topic(topic_id: uuid.UUID, name: str, partitions: int = 1) -> list[Message]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index, topic_id=topic_id, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=0
            )
            for index in range(partitions)
        ),
    ]


def config(resource_type: int, resource: str, name: str, value: str | None) -> Message:
    return ConfigRecord(resource_type=resource_type, resource_name=resource, name=name, value=value)


@pytest.fixture
def image() -> MetadataImage:
    """Brokers 1 in rack a and 2 without one; topic orders with two partitions."""
    made = MetadataImage()
    apply(made, broker(1, "a"), broker(2, None), *topic(ORDERS, "orders", 2))
    return made


@pytest.fixture
def broker_config() -> BrokerConfig:
    return BrokerConfig.from_mapping(
        {"log.dirs": "/nowhere", "group.consumer.max.session.timeout.ms": "50000"}
    )


def test_the_first_view_has_every_topic_with_the_racks_that_are_known(image: MetadataImage) -> None:
    view, changed = TopicsFollower(image).take_changes()
    assert changed == {"orders"}
    described = view.named("orders")
    assert described is not None
    assert described.racks == (frozenset({"a"}), frozenset({"a"}))
    assert view.with_id(ORDERS) is described


def test_a_created_topic_is_a_change_and_the_old_view_stays_as_it_was(image: MetadataImage) -> None:
    follower = TopicsFollower(image)
    before, _ = follower.take_changes()
    # when
    follower.follow(apply(image, *topic(BILLS, "bills")))
    # then
    view, changed = follower.take_changes()
    assert changed == {"bills"}
    assert set(view.names()) == {"orders", "bills"}
    assert set(before.names()) == {"orders"}
    assert follower.take_changes() == (view, frozenset())


def test_a_deleted_topic_leaves_the_view_under_its_name_and_its_id(image: MetadataImage) -> None:
    follower = TopicsFollower(image)
    follower.take_changes()
    # when
    follower.follow(apply(image, RemoveTopicRecord(topic_id=ORDERS)))
    # then
    view, changed = follower.take_changes()
    assert changed == {"orders"}
    assert (len(view), view.with_id(ORDERS)) == (0, None)


def test_a_topic_made_again_under_its_name_has_the_new_id_only(image: MetadataImage) -> None:
    follower = TopicsFollower(image)
    follower.take_changes()
    # when
    follower.follow(apply(image, RemoveTopicRecord(topic_id=ORDERS), *topic(BILLS, "orders")))
    # then
    view, changed = follower.take_changes()
    assert changed == {"orders"}
    assert view.with_id(ORDERS) is None
    assert view.with_id(BILLS) is view.named("orders")


def test_a_new_leader_is_no_change_for_groups(image: MetadataImage) -> None:
    follower = TopicsFollower(image)
    view, _ = follower.take_changes()
    # when
    follower.follow(apply(image, PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=2)))
    # then
    assert follower.take_changes() == (view, frozenset())


def test_a_broker_that_moves_to_another_rack_changes_its_topics(image: MetadataImage) -> None:
    follower = TopicsFollower(image)
    follower.take_changes()
    # when
    follower.follow(apply(image, broker(2, "b")))
    # then
    view, changed = follower.take_changes()
    assert changed == {"orders"}
    described = view.named("orders")
    assert described is not None
    assert described.racks[0] == {"a", "b"}


def test_a_groups_own_values_lie_over_the_brokers(image: MetadataImage, broker_config: BrokerConfig) -> None:
    apply(image, config(GROUP_RESOURCE, "g", "consumer.heartbeat.interval.ms", "6000"))
    settings = SettingsFollower(broker_config, image).settings
    assert settings.of("g").consumer_heartbeat_interval_ms == 6_000
    assert settings.of("other").consumer_heartbeat_interval_ms == 5_000


def test_a_groups_value_beyond_the_brokers_limit_counts_as_the_limit(
    image: MetadataImage, broker_config: BrokerConfig
) -> None:
    apply(image, config(GROUP_RESOURCE, "g", "consumer.session.timeout.ms", "60000"))
    settings = SettingsFollower(broker_config, image).settings
    assert settings.of("g").consumer_session_timeout_ms == 50_000


def test_a_group_without_values_of_its_own_falls_back(
    image: MetadataImage, broker_config: BrokerConfig
) -> None:
    name = "streams.num.standby.replicas"
    apply(image, config(GROUP_RESOURCE, "g", name, "2"))
    follower = SettingsFollower(broker_config, image)
    assert follower.settings.of("g").streams_num_standby_replicas == 2
    # when
    assert follower.follow(apply(image, config(GROUP_RESOURCE, "g", name, None)))
    # then
    assert follower.settings.of("g").streams_num_standby_replicas == 0


def test_a_brokers_setting_that_is_changed_while_it_runs_reaches_the_groups_within_its_bounds(
    image: MetadataImage, broker_config: BrokerConfig
) -> None:
    follower = SettingsFollower(broker_config, image)
    # when
    delta = apply(image, config(BROKER_RESOURCE, "", "group.share.assignment.interval.ms", "99999"))
    broker_config.follow(image)
    # then
    assert follower.follow(delta)
    assert follower.settings.of("g").share_assignment_interval_ms == 15_000


def test_a_brokers_setting_that_no_group_works_by_is_no_change(
    image: MetadataImage, broker_config: BrokerConfig
) -> None:
    follower = SettingsFollower(broker_config, image)
    delta = apply(image, config(BROKER_RESOURCE, "", "log.retention.ms", "1"))
    broker_config.follow(image)
    assert not follower.follow(delta)


def test_what_changed_while_no_shard_was_there_reaches_the_next_one_at_once(
    image: MetadataImage, broker_config: BrokerConfig
) -> None:
    inputs = GroupInputs(broker_config, image)
    # when
    assert inputs.changes(apply(image, *topic(BILLS, "bills")), has_shards=False) == []
    inputs.new_shard(AT)
    # then
    delta = apply(image, RemoveTopicRecord(topic_id=BILLS))
    [event] = [make(AT) for make in inputs.changes(delta, has_shards=True)]
    assert isinstance(event, TopicsChanged)
    assert event.changed == {"bills"}


def test_shards_are_told_of_changed_settings(image: MetadataImage, broker_config: BrokerConfig) -> None:
    inputs = GroupInputs(broker_config, image)
    inputs.new_shard(AT)
    delta = apply(image, config(GROUP_RESOURCE, "g", "share.session.timeout.ms", "50000"))
    [event] = [make(AT) for make in inputs.changes(delta, has_shards=True)]
    assert isinstance(event, SettingsChanged)
    assert event.settings.of("g").share_session_timeout_ms == 50_000
