"""The difference between two images is the sum of the changes in between."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ottla.core.image.image import MetadataDelta, MetadataImage
from ottla.core.image.image_delta import image_delta
from ottla.core.image.snapshot_records import image_records
from ottla.protocol.records.access_control_entry_record import AccessControlEntryRecord
from ottla.protocol.records.client_quota_record import ClientQuotaRecord, EntityData
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.delegation_token_record import DelegationTokenRecord
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from ottla.protocol.records.partition_record import PartitionRecord
from ottla.protocol.records.register_broker_record import RegisterBrokerRecord
from ottla.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.protocol.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from ottla.protocol.records.remove_topic_record import RemoveTopicRecord
from ottla.protocol.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ottla.protocol.records.topic_record import TopicRecord
from ottla.protocol.records.unregister_broker_record import UnregisterBrokerRecord
from ottla.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from ottla.protocol.schema import Message

NAMES = ["orders", "clicks", "tweets"]
Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["topic", "remove", "change", "config", "broker", "feature", "acl", "user", "token", "quota"]
        ),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=30,
)


def taken(image: MetadataImage, delta: MetadataDelta, steps: Sequence[Step], turn: int) -> None:
    """Turn the steps into valid records, and apply them."""
    for number, (what, which, value) in enumerate(steps):
        for record in records_of(
            image, what, NAMES[which], which, value, uuid.UUID(int=1000 * turn + number)
        ):
            image.apply(record, delta)


def records_of(
    image: MetadataImage, what: str, name: str, which: int, value: int, new_id: uuid.UUID
) -> list[Message]:
    topic = image.topics.get(name)
    match what:
        case "topic" if topic is None:
            partitions = [
                PartitionRecord(partition_id=each, topic_id=new_id, replicas=[1, 2], isr=[1], leader=1)
                for each in range(value)
            ]
            return [TopicRecord(name=name, topic_id=new_id), *partitions]
        case "remove" if topic is not None:
            return [RemoveTopicRecord(topic_id=topic.topic_id)]
        case "change" if topic is not None and value in topic.partitions:
            return [PartitionChangeRecord(partition_id=value, topic_id=topic.topic_id, leader=which)]
        case "quota":
            entity = [EntityData(entity_type="user", entity_name=name)]
            return [ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=not value)]
        case "config":
            text = str(value) if value else None
            kind, resource = [(2, name), (4, ""), (32, name)][which]
            return [ConfigRecord(resource_type=kind, resource_name=resource, name="a", value=text)]
        case "broker" if which in image.brokers:
            epoch = image.brokers[which].broker_epoch
            return [UnregisterBrokerRecord(broker_id=which, broker_epoch=epoch)]
        case "broker":
            return [RegisterBrokerRecord(broker_id=which, broker_epoch=value, incarnation_id=new_id)]
        case "feature":
            return [FeatureLevelRecord(name=name, feature_level=value)]
        case "acl":
            acl_id = uuid.UUID(int=which)
            if value == 0:
                return [RemoveAccessControlEntryRecord(id=acl_id)]
            return [AccessControlEntryRecord(id=acl_id, resource_name=name, operation=value)]
        case "user" if value:
            return [UserScramCredentialRecord(name=name, mechanism=which, iterations=value)]
        case "user":
            return [RemoveUserScramCredentialRecord(name=name, mechanism=which)]
        case "token" if value:
            return [DelegationTokenRecord(token_id=name, expiration_timestamp=value)]
        case "token":
            return [RemoveDelegationTokenRecord(token_id=name)]
    return []


@given(steps, steps)
def test_a_snapshots_delta_equals_that_of_the_records(before: Sequence[Step], after: Sequence[Step]) -> None:
    old = MetadataImage()
    taken(old, MetadataDelta(), before, 1)
    new, told = old.copy(), MetadataDelta()
    taken(new, told, after, 2)
    found = image_delta(old, new)
    # Topics that came and went meanwhile are only in the records.
    came = {each for each in told.created_topics if each[0] in new.topics_by_id}
    went = {each for each in told.deleted_topics if each[0] in old.topics_by_id}
    assert set(found.created_topics) == came
    assert set(found.deleted_topics) == went
    assert set(found.changed_partitions) <= set(told.changed_partitions)
    for topic_id, index in set(told.changed_partitions) - set(found.changed_partitions):
        assert topic_id not in new.topics_by_id or (
            new.topics_by_id[topic_id].partitions[index] == old.topics_by_id[topic_id].partitions[index]
        )
    assert set(found.changed_brokers) <= set(told.changed_brokers)
    assert set(found.changed_controllers) <= set(told.changed_controllers)
    assert set(found.changed_topic_configs) <= set(told.changed_topic_configs) | {n for _, n in went}
    assert set(found.changed_group_configs) <= set(told.changed_group_configs)
    assert found.broker_configs_changed <= told.broker_configs_changed
    assert found.features_changed <= told.features_changed
    assert found.quotas_changed <= told.quotas_changed
    assert found.quotas_changed == (old.client_quotas != new.client_quotas)
    for name in ("acls", "scram_credentials", "delegation_tokens"):
        before_keys, now = getattr(old, name), getattr(new, name)
        changed = {key for key in before_keys | now if before_keys.get(key) != now.get(key)}
        assert changed == set(getattr(found, f"changed_{name}")) <= set(getattr(told, f"changed_{name}"))


@given(steps)
def test_a_snapshots_records_give_the_same_image(before: Sequence[Step]) -> None:
    image, again = MetadataImage(), MetadataImage()
    taken(image, MetadataDelta(), before, 1)
    for record in image_records(image):
        again.apply(record, MetadataDelta())
    assert again == image


@given(steps)
def test_an_image_and_its_copy_have_no_difference(before: Sequence[Step]) -> None:
    image = MetadataImage()
    taken(image, MetadataDelta(), before, 1)
    assert image_delta(image, image.copy()).empty
