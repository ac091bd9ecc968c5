"""The image: the change by each record, and its delta."""

from __future__ import annotations

import uuid

import pytest

from ottla.core.image.image import (
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
)
from ottla.core.image.snapshot_records import image_records
from ottla.protocol.records.abort_transaction_record import AbortTransactionRecord
from ottla.protocol.records.access_control_entry_record import AccessControlEntryRecord
from ottla.protocol.records.begin_transaction_record import BeginTransactionRecord
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.records.clear_elr_record import ClearElrRecord
from ottla.protocol.records.client_quota_record import ClientQuotaRecord, EntityData
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.end_transaction_record import EndTransactionRecord
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.fence_broker_record import FenceBrokerRecord
from ottla.protocol.records.no_op_record import NoOpRecord
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from ottla.protocol.records.partition_record import PartitionRecord
from ottla.protocol.records.producer_ids_record import ProducerIdsRecord
from ottla.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.protocol.records.remove_topic_record import RemoveTopicRecord
from ottla.protocol.records.topic_record import TopicRecord
from ottla.protocol.records.unfence_broker_record import UnfenceBrokerRecord
from ottla.protocol.records.unregister_broker_record import UnregisterBrokerRecord
from ottla.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from ottla.protocol.schema import Message
from support.core.metadata import apply, image_with_brokers

ORDERS = uuid.UUID(int=77)


def orders(partitions: int = 2) -> list[Message]:
    """A topic with replicas on the brokers 1 and 2."""
    return [
        TopicRecord(name="orders", topic_id=ORDERS),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=ORDERS,
                replicas=[1, 2],
                isr=[1, 2],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[uuid.UUID(int=1001), uuid.UUID(int=1002)],
            )
            for index in range(partitions)
        ),
    ]


@pytest.fixture
def image() -> MetadataImage:
    """Two brokers and the topic `orders`."""
    made = image_with_brokers([1, 2])
    apply(made, orders())
    return made


def partition(image: MetadataImage, index: int = 0) -> PartitionImage:
    return image.topics["orders"].partitions[index]


def test_a_topic_is_found_by_name_and_by_id(image: MetadataImage) -> None:
    assert image.topics["orders"] is image.topics_by_id[ORDERS]
    assert sorted(image.topics["orders"].partitions) == [0, 1]


def test_the_delta_names_the_changes() -> None:
    delta = apply(image_with_brokers([1, 2]), orders())
    assert delta.created_topics == [(ORDERS, "orders")]
    assert list(delta.changed_partitions) == [(ORDERS, 0), (ORDERS, 1)]


def test_a_removed_topic_takes_its_settings_along(image: MetadataImage) -> None:
    apply(image, [ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")])
    delta = apply(image, [RemoveTopicRecord(topic_id=ORDERS)])
    assert "orders" not in image.topics
    assert (2, "orders") not in image.configs
    assert delta.deleted_topics == [(ORDERS, "orders")]


def test_a_topic_that_comes_and_goes_in_one_batch_has_no_changed_partitions() -> None:
    delta = apply(image_with_brokers([1, 2]), [*orders(), RemoveTopicRecord(topic_id=ORDERS)])
    assert not delta.changed_partitions


def test_naming_a_leader_begins_a_leader_epoch(image: MetadataImage) -> None:
    apply(image, [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=1)])
    assert (partition(image).leader, partition(image).leader_epoch, partition(image).partition_epoch) == (
        1,
        1,
        1,
    )


def test_a_changed_in_sync_set_keeps_the_leader_epoch(image: MetadataImage) -> None:
    apply(image, [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[1])])
    assert partition(image).isr == (1,)
    assert (partition(image).leader_epoch, partition(image).partition_epoch) == (0, 1)


def test_losing_the_leader(image: MetadataImage) -> None:
    change = PartitionChangeRecord(
        partition_id=0,
        topic_id=ORDERS,
        leader=NO_LEADER,
        isr=[],
        eligible_leader_replicas=[1],
        last_known_elr=[1],
    )
    apply(image, [change])
    assert partition(image).leader == NO_LEADER
    assert (partition(image).elr, partition(image).last_known_elr) == ((1,), (1,))
    apply(image, [ClearElrRecord(topic_name="orders")])
    assert (partition(image).elr, partition(image).last_known_elr) == ((), ())


def test_new_replicas_keep_the_directories_of_the_old_ones(image: MetadataImage) -> None:
    apply(image, [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, replicas=[3, 2])])
    assert partition(image).directories == (UNASSIGNED_DIRECTORY, uuid.UUID(int=1002))


def test_a_broker_is_unfenced_fenced_shut_down_and_forgotten() -> None:
    image = image_with_brokers([1])
    assert image.brokers[1].active
    apply(image, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, in_controlled_shutdown=1)])
    assert not image.brokers[1].active
    assert not image.brokers[1].fenced
    apply(image, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1)])
    assert image.brokers[1].fenced
    apply(image, [UnfenceBrokerRecord(id=1, epoch=101), FenceBrokerRecord(id=1, epoch=101)])
    assert image.brokers[1].fenced
    delta = apply(image, [UnregisterBrokerRecord(broker_id=1, broker_epoch=101)])
    assert not image.brokers
    assert list(delta.changed_brokers) == [1]


def test_settings_are_set_and_taken_back(image: MetadataImage) -> None:
    delta = apply(image, [ConfigRecord(resource_type=4, resource_name="", name="a", value="1")])
    before = image.configs[(4, "")]
    apply(image, [ConfigRecord(resource_type=4, resource_name="", name="a", value=None)])
    assert delta.broker_configs_changed
    assert (4, "") not in image.configs
    assert before == {"a": "1"}  # a reader that holds it sees no change


def test_a_feature_of_level_0_is_not_there(image: MetadataImage) -> None:
    assert image.features["group.version"] == 1
    delta = apply(image, [FeatureLevelRecord(name="group.version", feature_level=0)])
    assert "group.version" not in image.features
    assert delta.features_changed


def test_producer_ids_never_go_back(image: MetadataImage) -> None:
    apply(image, [ProducerIdsRecord(broker_id=1, broker_epoch=101, next_producer_id=1000)])
    with pytest.raises(ValueError, match="goes back from 1000 to 1000"):
        apply(image, [ProducerIdsRecord(broker_id=1, broker_epoch=101, next_producer_id=1000)])


def test_a_transaction_counts_at_its_end(image: MetadataImage) -> None:
    delta = apply(image, [BeginTransactionRecord(name="t"), RemoveTopicRecord(topic_id=ORDERS)])
    assert "orders" in image.topics
    assert delta.empty
    delta = apply(image, [EndTransactionRecord()])
    assert "orders" not in image.topics
    assert not delta.empty


def test_an_aborted_metadata_transaction_has_no_effect(image: MetadataImage) -> None:
    apply(
        image,
        [BeginTransactionRecord(name="t"), RemoveTopicRecord(topic_id=ORDERS), AbortTransactionRecord()],
    )
    apply(image, [EndTransactionRecord(), NoOpRecord()])
    assert "orders" in image.topics


def test_records_that_this_version_does_not_use_are_kept() -> None:
    image = image_with_brokers([1])
    entity = [
        EntityData(entity_type="user", entity_name="ann"),
        EntityData(entity_type="client-id", entity_name=None),
    ]
    acl = AccessControlEntryRecord(id=ORDERS, resource_name="x", principal="User:ann", host="*")
    apply(
        image,
        [
            acl,
            ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=5.0),
            UserScramCredentialRecord(name="ann", mechanism=1, salt=b"s", iterations=4096),
        ],
    )
    copied = MetadataImage()
    apply(copied, image_records(image))
    assert copied == image
    apply(image, [RemoveAccessControlEntryRecord(id=ORDERS)])
    apply(image, [ClientQuotaRecord(entity=entity, key="producer_byte_rate", remove=True)])
    assert not image.acls
    assert not image.client_quotas


def test_a_copy_changes_apart(image: MetadataImage) -> None:
    copied = image.copy()
    assert copied == image
    apply(copied, [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[1])])
    apply(copied, [ConfigRecord(resource_type=2, resource_name="orders", name="a", value="1")])
    assert partition(image).isr == (1, 2)
    assert not image.configs
    assert copied.topics_by_id[ORDERS] is copied.topics["orders"]


def test_the_partitions_of_a_broker_are_found(image: MetadataImage) -> None:
    def has(looked_at: MetadataImage, broker_id: int) -> bool:
        return 0 in {each.partition_id for _, each in looked_at.partitions_of_broker(broker_id)}

    assert has(image, 2)
    copied = image.copy()
    moved = PartitionChangeRecord(partition_id=0, topic_id=ORDERS, replicas=[1, 3], leader=NO_LEADER)
    apply(copied, [moved])
    assert not has(copied, 2)
    assert has(copied, 3)
    assert [each.leader for _, each in copied.leaderless_partitions()] == [NO_LEADER]
    assert has(image, 2)  # the copy has changed independently
    assert not has(image, 3)
    assert list(image.leaderless_partitions()) == []
    apply(image, [RemoveTopicRecord(topic_id=ORDERS)])
    assert not has(image, 1)
    assert has(copied, 1)


@pytest.mark.parametrize(
    "record",
    [
        RemoveTopicRecord(topic_id=uuid.UUID(int=5)),
        PartitionRecord(topic_id=uuid.UUID(int=5), partition_id=0),
        PartitionChangeRecord(topic_id=ORDERS, partition_id=9),
        TopicRecord(name="orders", topic_id=uuid.UUID(int=5)),
        FenceBrokerRecord(id=1, epoch=5),
        UnregisterBrokerRecord(broker_id=9, broker_epoch=1),
    ],
)
def test_a_record_that_does_not_fit_is_refused(image: MetadataImage, record: Message) -> None:
    with pytest.raises(ValueError):
        image.apply(record, MetadataDelta())
