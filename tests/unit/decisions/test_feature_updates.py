"""Changes of feature levels."""

from __future__ import annotations

import uuid

import pytest

from ottla.core.decisions.feature_updates import update_features
from ottla.core.image.image import ControllerImage, MetadataImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.update_features_response import UpdateFeaturesResponse
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from support.core.metadata import apply, create, decided, image_with_brokers, topic

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@pytest.fixture
def image() -> MetadataImage:
    return image_with_brokers([1])


def update(
    image: MetadataImage, *updates: tuple[str, int, int], validate_only: bool = False
) -> UpdateFeaturesResponse:
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in updates
    ]
    request = UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)
    return decided(image, update_features(image, request, api_version=2))


def test_a_feature_goes_down_and_up_again(image: MetadataImage) -> None:
    assert update(image, ("transaction.version", 1, SAFE_DOWNGRADE)).error_code == ErrorCode.NONE
    assert image.features["transaction.version"] == 1
    assert update(image, ("transaction.version", 2, UPGRADE)).error_code == ErrorCode.NONE
    assert image.features["transaction.version"] == 2


def test_metadata_of_4_3_is_upgraded_once_every_node_can_read_it(image: MetadataImage) -> None:
    # given: a cluster of 4.3-IV0, one of whose brokers is of that release still
    apply(image, [FeatureLevelRecord(name="metadata.version", feature_level=30)])
    new = image.brokers[1]
    older = [(name, low, 30 if name == "metadata.version" else high) for name, low, high in new.features]
    image.brokers[1] = new._replace(features=tuple(older))
    answer = update(image, ("metadata.version", 33, UPGRADE))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Broker 1 only supports versions 7-30" in str(answer.error_message)
    # when: it is of this release too
    image.brokers[1] = new
    assert update(image, ("metadata.version", 33, UPGRADE)).error_code == ErrorCode.NONE
    assert image.features["metadata.version"] == 33


@pytest.mark.parametrize("kind", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
@pytest.mark.parametrize(
    ("level", "lower", "is_done"),
    [(33, 32, False), (33, 30, False), (32, 31, False), (31, 30, True), (30, 29, False), (31, 7, False)],
)
def test_metadata_goes_down_only_where_no_level_changed_it(
    image: MetadataImage, level: int, lower: int, is_done: bool, kind: int
) -> None:
    apply(image, [FeatureLevelRecord(name="metadata.version", feature_level=level)])
    answer = update(image, ("metadata.version", lower, kind))
    assert (answer.error_code == ErrorCode.NONE) == is_done
    assert image.features["metadata.version"] == (lower if is_done else level)
    if not is_done:
        assert f"Unsupported metadata.version downgrade from {level} to {lower}." in str(answer.error_message)


def test_validation_changes_nothing(image: MetadataImage) -> None:
    assert update(image, ("group.version", 0, SAFE_DOWNGRADE), validate_only=True).error_code == 0
    assert image.features["group.version"] == 1


def test_one_that_fails_fails_all(image: MetadataImage) -> None:
    answer = update(image, ("transaction.version", 1, SAFE_DOWNGRADE), ("nonsense", 1, UPGRADE))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert image.features["transaction.version"] == 2


def test_every_registered_node_must_support_the_level(image: MetadataImage) -> None:
    update(image, ("group.version", 0, SAFE_DOWNGRADE))
    old = tuple(each for each in image.brokers[1].features if each[0] != "group.version")
    image.brokers[1] = image.brokers[1]._replace(features=old, fenced=True)
    answer = update(image, ("group.version", 1, UPGRADE))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message is not None
    assert "Broker 1 does not support this feature." in answer.error_message
    image.brokers[1] = image.brokers[1]._replace(features=(("group.version", 0, 1),))
    image.controllers[7] = ControllerImage(7, uuid.UUID(int=7), (), (("group.version", 2, 3),))
    answer = update(image, ("group.version", 1, UPGRADE))
    assert answer.error_message is not None
    assert "Controller 7 only supports versions 2-3" in answer.error_message


def test_a_voter_that_has_not_registered_may_not_support_it(image: MetadataImage) -> None:
    key = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=SAFE_DOWNGRADE)
    request = UpdateFeaturesRequest(feature_updates=[key])
    answer = update_features(image, request, 2, voter_ids=[9]).response
    assert answer.error_message is not None
    assert "controller 9 has not registered" in answer.error_message


def test_without_eligible_leader_replicas_no_replica_becomes_eligible(image: MetadataImage) -> None:
    create(image, topic("orders", 1, 1))
    topic_id = image.topics["orders"].topic_id
    gone = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, leader=-1, isr=[], eligible_leader_replicas=[1], last_known_elr=[1]
    )
    apply(image, [gone])
    update(image, ("eligible.leader.replicas.version", 0, SAFE_DOWNGRADE))
    partition = image.topics["orders"].partitions[0]
    assert (partition.elr, partition.last_known_elr) == ((), ())


def test_eligible_leader_replicas_need_one_minimum_for_all(image: MetadataImage) -> None:
    update(image, ("eligible.leader.replicas.version", 0, SAFE_DOWNGRADE))
    own = ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value="1")
    apply(image, [own])
    key = FeatureUpdateKey(
        feature="eligible.leader.replicas.version", max_version_level=1, upgrade_type=UPGRADE
    )
    request = UpdateFeaturesRequest(feature_updates=[key])
    decided(image, update_features(image, request, 2, min_insync_replicas=2))
    assert image.features["eligible.leader.replicas.version"] == 1
    assert image.configs == {(4, ""): {"min.insync.replicas": "2"}}


@pytest.mark.parametrize(
    ("name", "level", "kind"),
    [
        ("nonsense", 1, UPGRADE),
        ("group.version", 9, UPGRADE),
        ("group.version", -1, UPGRADE),
        ("group.version", 0, UPGRADE),
        ("group.version", 0, 9),
        ("metadata.version", 29, SAFE_DOWNGRADE),
        ("metadata.version", 34, UPGRADE),
        ("kraft.version", 0, SAFE_DOWNGRADE),
    ],
)
def test_invalid_updates_are_refused(image: MetadataImage, name: str, level: int, kind: int) -> None:
    assert update(image, (name, level, kind)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert image == image_with_brokers([1])
