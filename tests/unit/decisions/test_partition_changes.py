"""Changes of partitions: leader, in-sync set, eligible replicas."""

from __future__ import annotations

import pytest

from ottla.core.decisions.partition_changes import (
    RECOVERED,
    RECOVERING,
    Election,
    PartitionChanges,
    Target,
    TopicRules,
    topic_rules,
)
from ottla.core.image.image import NO_LEADER, MetadataImage, PartitionImage
from ottla.core.settings.config_layers import BrokerLayers
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from support.core.metadata import apply, create, directory_of, image_with_brokers, topic

TWO_IN_SYNC = TopicRules(lambda topic: False, lambda topic: 2)
UNCLEAN = TopicRules(lambda topic: True, lambda topic: 2)


@pytest.fixture
def image() -> MetadataImage:
    made = image_with_brokers([1, 2, 3, 4])
    create(made, topic("orders", assignments={0: [1, 2, 3]}))
    return made


def orders(image: MetadataImage) -> PartitionImage:
    return image.topics["orders"].partitions[0]


def set_partition(
    image: MetadataImage,
    *,
    leader: int,
    isr: list[int],
    elr: list[int] | None = None,
    last_known_elr: list[int] | None = None,
) -> None:
    record = PartitionChangeRecord(
        partition_id=0,
        topic_id=image.topics["orders"].topic_id,
        leader=leader,
        isr=isr,
        eligible_leader_replicas=elr or [],
        last_known_elr=last_known_elr or [],
    )
    apply(image, [record])


def fence(image: MetadataImage, *broker_ids: int) -> None:
    for each in broker_ids:
        apply(image, [BrokerRegistrationChangeRecord(broker_id=each, broker_epoch=100 + each, fenced=1)])


def change(
    image: MetadataImage,
    target: Target,
    rules: TopicRules = TWO_IN_SYNC,
    election: Election | None = None,
) -> PartitionImage:
    """Change the partition, apply the records, and check that both agree."""
    changes = PartitionChanges(image, rules)
    decided = changes.change(image.topics["orders"], 0, target, election)
    apply(image, changes.records)
    assert decided in (None, orders(image))
    return orders(image)


def without(image: MetadataImage, broker_id: int) -> Target:
    """The broker is no longer in sync and may not lead."""
    return Target(isr=tuple(each for each in orders(image).isr if each != broker_id), barred=broker_id)


def test_a_target_that_is_reached_needs_no_record(image: MetadataImage) -> None:
    changes = PartitionChanges(image, TWO_IN_SYNC)
    assert changes.change(image.topics["orders"], 0, Target()) is None
    assert changes.records == []


def test_a_smaller_in_sync_set_is_no_new_leader_epoch(image: MetadataImage) -> None:
    after = change(image, Target(isr=(1, 2)))
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 0, 1)


def test_the_first_replica_in_sync_follows_a_leader_that_goes(image: MetadataImage) -> None:
    after = change(image, without(image, 1))
    assert (after.leader, after.isr, after.leader_epoch, after.elr) == (2, (2, 3), 1, ())


def test_replicas_that_leave_below_the_minimum_stay_eligible(image: MetadataImage) -> None:
    change(image, without(image, 1))
    after = change(image, without(image, 2))
    assert (after.leader, after.isr, after.elr) == (3, (3,), (2,))


def test_eligible_ones_are_forgotten_when_enough_are_in_sync(image: MetadataImage) -> None:
    set_partition(image, leader=3, isr=[3], elr=[2])
    after = change(image, Target(isr=(3, 1)))
    assert (after.isr, after.elr) == ((3, 1), ())


def test_with_no_replica_in_sync_an_eligible_one_leads(image: MetadataImage) -> None:
    set_partition(image, leader=3, isr=[3], elr=[2])
    fence(image, 2)
    after = change(image, without(image, 3))
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (NO_LEADER, (), (2, 3), (3,))
    apply(image, [BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=102, fenced=-1)])
    after = change(image, Target())
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (2, (2,), (3,), ())
    assert after.leader_recovery_state == RECOVERED


def test_in_sync_comes_before_eligible(image: MetadataImage) -> None:
    set_partition(image, leader=1, isr=[1, 3], elr=[2])
    rules = TopicRules(lambda topic: False, lambda topic: 3)
    after = change(image, without(image, 1), rules)
    assert (after.leader, after.isr, after.elr) == (3, (3,), (1, 2))


def test_a_replica_that_lost_records_is_not_eligible(image: MetadataImage) -> None:
    set_partition(image, leader=3, isr=[3], elr=[2])
    target = Target(barred=2, barred_has_lost_records=True)
    after = change(image, target)
    assert (after.leader, after.isr, after.elr) == (3, (3,), ())


def test_the_last_known_leader_leads_uncleanly(image: MetadataImage) -> None:
    set_partition(image, leader=NO_LEADER, isr=[], last_known_elr=[3])
    after = change(image, Target())
    assert (after.leader, after.isr, after.last_known_elr) == (3, (3,), ())
    assert after.leader_recovery_state == RECOVERING


def test_a_dead_last_known_leader_does_not(image: MetadataImage) -> None:
    set_partition(image, leader=NO_LEADER, isr=[], last_known_elr=[3])
    fence(image, 3)
    assert change(image, Target()).leader == NO_LEADER
    after = change(image, Target(), UNCLEAN)
    assert (after.leader, after.leader_recovery_state) == (1, RECOVERING)


def test_of_several_last_known_replicas_none_is_elected(image: MetadataImage) -> None:
    set_partition(image, leader=NO_LEADER, isr=[], last_known_elr=[2, 3])
    assert change(image, Target()).leader == NO_LEADER


def test_unclean_only_where_allowed(image: MetadataImage) -> None:
    set_partition(image, leader=NO_LEADER, isr=[], elr=[2])
    fence(image, 2)
    assert change(image, Target()).leader == NO_LEADER
    after = change(image, Target(), UNCLEAN)
    assert (after.leader, after.isr, after.elr, after.leader_recovery_state) == (1, (1,), (), RECOVERING)


def test_preferred_needs_to_be_in_sync(image: MetadataImage) -> None:
    set_partition(image, leader=2, isr=[2, 3])
    assert change(image, Target(), election=Election.PREFERRED).leader == 2
    set_partition(image, leader=2, isr=[2, 3, 1])
    assert change(image, Target()).leader == 2
    assert change(image, Target(), election=Election.PREFERRED).leader == 1


def test_without_the_feature_the_last_one_stays_in_sync(image: MetadataImage) -> None:
    apply(image, [FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)])
    set_partition(image, leader=1, isr=[1])
    after = change(image, without(image, 1))
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (NO_LEADER, (1,), (), ())
    assert change(image, Target()).leader == 1


def test_without_the_feature_no_replica_stays_eligible(image: MetadataImage) -> None:
    set_partition(image, leader=1, isr=[1], elr=[2])
    apply(image, [FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)])
    assert change(image, Target(isr=(1, 3))).elr == ()


def test_a_replica_in_a_failed_directory_does_not_lead(image: MetadataImage) -> None:
    other = directory_of(9)
    apply(image, [BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=102, log_dirs=[other])])
    assert change(image, without(image, 1)).leader == 3


def test_a_reassignment_ends_when_all_that_stay_are_in_sync(image: MetadataImage) -> None:
    target = Target(replicas=(4, 2, 1, 3), removing_replicas=(1, 3), adding_replicas=(4,))
    moving = change(image, target)
    assert (moving.replicas, moving.leader, moving.leader_epoch) == ((4, 2, 1, 3), 1, 0)
    assert moving.directories == tuple(directory_of(each) for each in (4, 2, 1, 3))
    moved = change(image, Target(isr=(1, 2, 3, 4)))
    assert (moved.replicas, moved.isr, moved.leader) == ((4, 2), (2, 4), 4)
    assert (moved.removing_replicas, moved.adding_replicas) == ((), ())
    assert moved.directories == (directory_of(4), directory_of(2))
    assert moved.leader_epoch == 1


def test_taking_a_replica_off_is_a_new_leader_epoch(image: MetadataImage) -> None:
    target = Target(replicas=(1, 2, 3), removing_replicas=(3,))
    after = change(image, target)
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((1, 2), (1, 2), 1, 1)


def test_a_removed_replica_is_not_eligible(image: MetadataImage) -> None:
    set_partition(image, leader=1, isr=[1], elr=[3])
    after = change(image, Target(replicas=(1, 3), removing_replicas=(3,)))
    assert (after.replicas, after.isr, after.elr) == ((1,), (1,), ())


def test_changes_of_one_decision_build_on_each_other(image: MetadataImage) -> None:
    changes = PartitionChanges(image, TWO_IN_SYNC)
    orders_topic = image.topics["orders"]
    changes.change(orders_topic, 0, Target(isr=(2, 3), barred=1))
    changes.change(orders_topic, 0, Target(isr=(3,), barred=2))
    seen = changes.partition(orders_topic, 0)
    apply(image, changes.records)
    assert orders(image) == seen
    assert (orders(image).leader, orders(image).isr, orders(image).elr) == (3, (3,), (2,))


def test_rules_come_from_the_topic_then_the_cluster_then_the_file(image: MetadataImage) -> None:
    create(image, topic("own", 1, 1, configs={"min.insync.replicas": "3"}))
    layers = BrokerLayers({"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
    rules = topic_rules(image, layers, 1)
    assert (rules.min_insync_replicas("own"), rules.min_insync_replicas("orders")) == (3, 1)
    assert rules.may_elect_uncleanly("orders")
    appended = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2")
    apply(image, [appended])
    assert topic_rules(image, layers, 1).min_insync_replicas("orders") == 2
