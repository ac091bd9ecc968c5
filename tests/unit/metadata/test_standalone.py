"""A broker starts, stops, and leads again."""

from __future__ import annotations

import uuid

from ottla.core.metadata.image import NO_LEADER, EndpointImage, MetadataImage, PartitionImage
from ottla.core.metadata.standalone import elect_after_start, register_broker, shut_down_broker
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from support.metadata import apply, create, directory_of, image_with_brokers, topic

ENDPOINTS = [EndpointImage("PLAINTEXT", "host-1", 9092)]


def one_broker() -> MetadataImage:
    image = image_with_brokers([1])
    create(image, topic("orders", 1, 1))
    return image


def orders(image: MetadataImage) -> PartitionImage:
    return image.topics["orders"].partitions[0]


def restart(
    image: MetadataImage, epoch: int, directory: uuid.UUID | None = None, unclean: bool = False
) -> None:
    directory = directory or directory_of(1)
    registered = register_broker(1, epoch, uuid.uuid4(), ENDPOINTS, None, directory)
    apply(image, [*registered, *elect_after_start(image, 1, directory, lambda _: unclean)])


def test_a_registered_broker_runs() -> None:
    image = MetadataImage()
    apply(image, register_broker(1, 13, uuid.UUID(int=4), ENDPOINTS, "east", directory_of(1)))
    broker = image.brokers[1]
    assert (broker.broker_epoch, broker.rack, broker.log_dirs) == (13, "east", (directory_of(1),))
    assert broker.active
    assert broker.endpoint("PLAINTEXT") == ENDPOINTS[0]
    assert broker.endpoint("OTHER") is None


def test_after_a_kill_it_leads_in_a_new_epoch() -> None:
    image = one_broker()
    restart(image, epoch=200)
    assert (orders(image).leader, orders(image).leader_epoch, orders(image).isr) == (1, 1, (1,))


def test_a_clean_stop_leaves_the_partition_without_leader_but_eligible() -> None:
    image = one_broker()
    apply(image, shut_down_broker(image, 1))
    assert (orders(image).leader, orders(image).isr) == (NO_LEADER, ())
    assert (orders(image).elr, orders(image).last_known_elr) == ((1,), (1,))
    assert image.brokers[1].fenced


def test_after_a_clean_stop_it_is_elected() -> None:
    image = one_broker()
    apply(image, shut_down_broker(image, 1))
    restart(image, epoch=200)
    assert (orders(image).leader, orders(image).isr, orders(image).leader_epoch) == (1, (1,), 2)
    assert (orders(image).elr, orders(image).last_known_elr) == ((), ())
    assert image.brokers[1].active


def test_without_eligible_replicas_the_last_one_stays_in_sync() -> None:
    image = one_broker()
    apply(image, [FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)])
    apply(image, shut_down_broker(image, 1))
    assert (orders(image).leader, orders(image).isr, orders(image).elr) == (NO_LEADER, (1,), ())
    restart(image, epoch=200)
    assert orders(image).leader == 1


def test_a_replica_out_of_sync_leads_only_uncleanly() -> None:
    image = image_with_brokers([1, 2])
    create(image, topic("orders", assignments={0: [1, 2]}))
    topic_id = image.topics["orders"].topic_id
    apply(image, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=NO_LEADER, isr=[2])])
    restart(image, epoch=200)
    assert orders(image).leader == NO_LEADER
    restart(image, epoch=201, unclean=True)
    assert (orders(image).leader, orders(image).isr) == (1, (1,))


def test_another_brokers_partition_is_left_alone() -> None:
    image = image_with_brokers([1, 2])
    create(image, topic("orders", assignments={0: [2, 1]}))
    before = orders(image)
    restart(image, epoch=200)
    assert orders(image) == before


def test_a_new_directory_is_noted() -> None:
    image = one_broker()
    moved = uuid.UUID(int=5000)
    restart(image, epoch=200, directory=moved)
    assert orders(image).directories == (moved,)
