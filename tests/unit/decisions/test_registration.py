"""Brokers and controllers register, restart and are unregistered."""

from __future__ import annotations

import uuid

import pytest

from ottla.core.decisions.registration import (
    register_broker,
    register_controller,
    registered_broker,
)
from ottla.core.decisions.unregistration import unregister_broker, unregister_controller
from ottla.core.image.features import SUPPORTED_FEATURES
from ottla.core.image.image import NO_LEADER, MetadataImage, PartitionImage
from ottla.protocol.errors import (
    BrokerIdNotRegistered,
    ControllerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    InvalidRequest,
    KafkaError,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from ottla.protocol.messages import controller_registration_request as controllers
from ottla.protocol.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.register_controller_record import RegisterControllerRecord
from support.core.metadata import RULES, apply, create, decided, directory_of, image_with_brokers, topic

CLUSTER = "a-cluster"


@pytest.fixture
def image() -> MetadataImage:
    made = image_with_brokers([1, 2])
    made.last_offset = 40
    create(made, topic("orders", assignments={0: [1, 2]}))
    return made


def orders(image: MetadataImage) -> PartitionImage:
    return image.topics["orders"].partitions[0]


def request(broker_id: int, incarnation: int = 50) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER,
        incarnation_id=uuid.UUID(int=incarnation),
        listeners=[Listener(name="PLAINTEXT", host="host", port=9092, security_protocol=0)],
        features=[
            Feature(name=name, min_supported_version=smallest, max_supported_version=largest)
            for name, (smallest, largest) in SUPPORTED_FEATURES.items()
        ],
        rack="east",
        log_dirs=[directory_of(broker_id)],
        previous_broker_epoch=-1,
    )


def register(
    image: MetadataImage, asked: BrokerRegistrationRequest, *, alive: bool = False, api_version: int = 4
) -> int:
    decision = register_broker(
        image, asked, RULES, cluster_id=CLUSTER, is_alive=alive, api_version=api_version
    )
    return decided(image, decision).broker_epoch


def test_a_new_broker_is_fenced_and_its_epoch_is_its_records_offset(image: MetadataImage) -> None:
    assert register(image, request(3)) == 41
    broker = image.brokers[3]
    assert (broker.broker_epoch, broker.fenced, broker.rack) == (41, True, "east")
    assert broker.log_dirs == (directory_of(3),)
    assert ("metadata.version", *SUPPORTED_FEATURES["metadata.version"]) in broker.features


def test_the_epoch_counts_the_records_that_come_before(image: MetadataImage) -> None:
    assert register(image, request(1)) == 42  # record 41 removes it from the in-sync set


def test_an_answer_that_was_lost_is_given_again(image: MetadataImage) -> None:
    epoch = register(image, request(3))
    before = image.copy()
    assert register(image, request(3), alive=True) == epoch
    assert image == before


def test_the_same_run_may_change_its_listeners(image: MetadataImage) -> None:
    epoch = register(image, request(3))
    moved = request(3)
    moved.listeners[0].port = 9999
    assert register(image, moved, alive=True) == epoch
    assert image.brokers[3].endpoints[0].port == 9999


def test_two_brokers_with_one_id(image: MetadataImage) -> None:
    with pytest.raises(DuplicateBrokerRegistration):
        register(image, request(1), alive=True)


def test_after_an_unclean_end_it_is_not_eligible(image: MetadataImage) -> None:
    register(image, request(2))
    assert (orders(image).leader, orders(image).isr, orders(image).elr) == (1, (1,), ())
    register(image, request(1))
    assert (orders(image).leader, orders(image).isr, orders(image).elr) == (NO_LEADER, (), ())
    assert orders(image).last_known_elr == (1,)


def test_after_a_clean_end_it_stays_eligible(image: MetadataImage) -> None:
    register(image, request(2))
    proof = request(1)
    proof.previous_broker_epoch = 101
    register(image, proof)
    assert (orders(image).isr, orders(image).elr) == ((), (1,))


def test_old_versions_do_not_prove_a_clean_shutdown(image: MetadataImage) -> None:
    register(image, request(2))
    proof = request(1)
    proof.previous_broker_epoch = 101
    register(image, proof, api_version=2)
    assert (orders(image).isr, orders(image).elr) == ((), ())


def test_another_cluster(image: MetadataImage) -> None:
    asked = request(3)
    asked.cluster_id = "another"
    with pytest.raises(
        InconsistentClusterId, match="Expected cluster ID a-cluster, but got cluster ID another"
    ):
        register(image, asked)


def broken(change: str) -> BrokerRegistrationRequest:
    asked = request(3)
    match change:
        case "no directories":
            asked.log_dirs = []
        case "reserved directory":
            asked.log_dirs = [uuid.UUID(int=1)]
        case "directory twice":
            asked.log_dirs = [directory_of(3), directory_of(3)]
        case "another broker's directory":
            asked.log_dirs = [directory_of(1)]
        case "no listeners":
            asked.listeners = []
        case "listener twice":
            asked.listeners = [*asked.listeners, *asked.listeners]
        case "no host":
            asked.listeners[0].host = ""
        case "no metadata.version":
            asked.features = [each for each in asked.features if each.name != "metadata.version"]
        case "old metadata.version":
            asked.features[:] = [
                Feature(name="metadata.version", min_supported_version=7, max_supported_version=20)
            ]
        case "a feature it does not know":
            asked.features = [each for each in asked.features if each.name != "group.version"]
        case "a new feature that it needs":
            asked.features.append(Feature(name="new", min_supported_version=1, max_supported_version=2))
        case "of ZooKeeper":
            asked.is_migrating_zk_broker = True
    return asked


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("no directories", InvalidRegistration),
        ("reserved directory", InvalidRegistration),
        ("directory twice", InvalidRegistration),
        ("another broker's directory", InvalidRegistration),
        ("no listeners", InvalidRegistration),
        ("listener twice", InvalidRegistration),
        ("no host", InvalidRegistration),
        ("no metadata.version", InvalidRegistration),
        ("old metadata.version", UnsupportedVersion),
        ("a feature it does not know", UnsupportedVersion),
        ("a new feature that it needs", UnsupportedVersion),
        ("of ZooKeeper", BrokerIdNotRegistered),
    ],
)
def test_invalid_registrations_are_refused(
    image: MetadataImage, change: str, error: type[KafkaError]
) -> None:
    before = image.copy()
    with pytest.raises(error):
        register(image, broken(change))
    assert image == before


def test_a_request_of_another_run_is_stale(image: MetadataImage) -> None:
    assert registered_broker(image, 1, 101).broker_id == 1
    for broker_id, epoch in ((1, 100), (9, 1)):
        with pytest.raises(StaleBrokerEpoch):
            registered_broker(image, broker_id, epoch)


def test_an_unregistered_broker_is_in_sync_and_eligible_nowhere(image: MetadataImage) -> None:
    decided(image, unregister_broker(image, UnregisterBrokerRequest(broker_id=1), RULES))
    assert 1 not in image.brokers
    assert (orders(image).leader, orders(image).isr, orders(image).replicas) == (2, (2,), (1, 2))
    decided(image, unregister_broker(image, UnregisterBrokerRequest(broker_id=2), RULES))
    assert (orders(image).leader, orders(image).isr, orders(image).elr) == (NO_LEADER, (), ())


def test_an_unregistered_broker_cannot_be_unregistered(image: MetadataImage) -> None:
    with pytest.raises(BrokerIdNotRegistered, match="Broker ID 9 is not currently registered"):
        unregister_broker(image, UnregisterBrokerRequest(broker_id=9), RULES)


def test_a_controller_registers_once_for_each_run(image: MetadataImage) -> None:
    asked = controllers.ControllerRegistrationRequest(
        controller_id=7,
        incarnation_id=uuid.UUID(int=5),
        listeners=[controllers.Listener(name="CONTROLLER", host="host", port=9093, security_protocol=0)],
        features=[
            controllers.Feature(name="metadata.version", min_supported_version=7, max_supported_version=30),
            controllers.Feature(name="group.version", min_supported_version=0, max_supported_version=1),
        ],
    )
    decision = register_controller(image, asked)
    apply(image, decision.records)
    assert image.controllers[7].endpoints[0].port == 9093
    assert register_controller(image, asked).records == []
    asked.incarnation_id = uuid.UUID(int=6)
    assert register_controller(image, asked).records
    asked.listeners = []
    with pytest.raises(InvalidRegistration):
        register_controller(image, asked)


def test_a_controller_that_is_gone_is_unregistered(image: MetadataImage) -> None:
    apply(image, [RegisterControllerRecord(controller_id=7, incarnation_id=uuid.UUID(int=5))])
    request = UnregisterControllerRequest(controller_id=7)
    # then: not by itself, and not while a node of 4.3 could not read the record
    with pytest.raises(InvalidRequest, match="while it is active"):
        unregister_controller(image, request, active_id=7)
    apply(image, [FeatureLevelRecord(name="metadata.version", feature_level=32)])
    with pytest.raises(UnsupportedVersion, match="too old to support controller unregistration"):
        unregister_controller(image, request, active_id=1)
    apply(image, [FeatureLevelRecord(name="metadata.version", feature_level=33)])
    decided(image, unregister_controller(image, request, active_id=1))
    assert 7 not in image.controllers
    with pytest.raises(ControllerIdNotRegistered, match="Controller ID 7 is not currently registered"):
        unregister_controller(image, request, active_id=1)
