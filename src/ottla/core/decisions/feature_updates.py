"""Changes of the cluster's feature levels: UpdateFeatures 0-2 (KIP-584).

v1 distinguishes upgrade, safe and unsafe downgrade, and can validate without changing. All updates of a
request succeed or none does, and the answer has one error, because half of an upgrade is of no use. v2
reports no errors by feature.

A level must be one that every registered broker and controller supports, fenced ones too, because they may
return. Eligible leader replicas (KIP-966) need one min.insync.replicas for the whole cluster, so brokers' own
values are removed when the feature is enabled. When it is disabled, the eligible replicas of all partitions
are cleared, so that a later enabling does not find outdated ones. metadata.version goes down only where no
level in between has changed the metadata.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator

from ottla.core.decisions.decision import Decision
from ottla.core.image.features import (
    CHANGED_METADATA_VERSIONS,
    ELIGIBLE_LEADER_REPLICAS,
    KRAFT_VERSION,
    KRAFT_VERSION_LEVEL,
    METADATA_VERSION,
    OLDEST_WRITTEN_METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from ottla.core.image.image import BROKER_RESOURCE, MetadataImage
from ottla.protocol.errors import ErrorCode, InvalidUpdateVersion
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from ottla.protocol.records.clear_elr_record import ClearElrRecord
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.schema import Message


class UpgradeType(enum.IntEnum):
    """The change that a client allows: an upgrade, or a safe or unsafe downgrade."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


MIN_INSYNC_REPLICAS = "min.insync.replicas"
#: The range of a node that does not name a feature.
DISABLED = (0, 0)


def update_features(
    image: MetadataImage,
    request: UpdateFeaturesRequest,
    api_version: int,
    *,
    kraft_version: int = KRAFT_VERSION_LEVEL,
    voter_ids: Collection[int] = (),
    min_insync_replicas: int | None = None,
) -> Decision[UpdateFeaturesResponse]:
    """Set the new levels, for all features or none.

    `kraft_version` is the quorum's, `voter_ids` the controllers that must have registered,
    `min_insync_replicas` this controller's static value, for a cluster that has none yet.
    """
    try:
        for update in request.feature_updates:
            _check(image, update, api_version, kraft_version, voter_ids)
    except InvalidUpdateVersion as error:
        problem = (
            f"The update failed for all features since the following feature had an error: {error.message}"
        )
        return Decision([], UpdateFeaturesResponse(error_code=error.code, error_message=problem))
    records: list[Message] = []
    for update in request.feature_updates:
        name, level = update.feature, update.max_version_level
        if _current(image, name, kraft_version) == level:
            continue
        if name == ELIGIBLE_LEADER_REPLICAS:
            records += (
                _begin_eligibility(image, min_insync_replicas) if level else [ClearElrRecord(topic_name="")]
            )
        records.append(FeatureLevelRecord(name=name, feature_level=level))
    results = [
        UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE, error_message=None)
        for update in request.feature_updates
    ]
    return Decision(
        [] if request.validate_only else records,
        UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results),
    )


def _begin_eligibility(image: MetadataImage, min_insync_replicas: int | None) -> Iterator[Message]:
    """Set one min.insync.replicas for the cluster, and remove the brokers' own."""
    cluster = image.configs.get((BROKER_RESOURCE, ""), {})
    if MIN_INSYNC_REPLICAS not in cluster and min_insync_replicas is not None:
        yield _min_insync_replicas("", str(min_insync_replicas))
    for (kind, name), values in image.configs.items():
        if kind == BROKER_RESOURCE and name and MIN_INSYNC_REPLICAS in values:
            yield _min_insync_replicas(name, None)


def _min_insync_replicas(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=BROKER_RESOURCE, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value
    )


def _current(image: MetadataImage, feature: str, kraft_version: int) -> int:
    """A feature's level. That of kraft.version is not in the metadata, and never changes here."""
    return kraft_version if feature == KRAFT_VERSION else image.features.get(feature, 0)


def _check(
    image: MetadataImage,
    update: FeatureUpdateKey,
    api_version: int,
    kraft_version: int,
    voter_ids: Collection[int],
) -> None:
    feature, level = update.feature, update.max_version_level
    if api_version == 0:
        kind = UpgradeType.UNSAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    elif update.upgrade_type in set(UpgradeType):
        kind = UpgradeType(update.upgrade_type)
    else:
        raise _invalid(feature, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(feature, level, "A feature version cannot be less than 0.")
    for reason in _not_supported(image, feature, level, voter_ids):
        raise _invalid(feature, level, reason)
    current = _current(image, feature, kraft_version)
    if feature == KRAFT_VERSION and level != current:
        raise _invalid(feature, level, "The quorum's version can't be changed.")
    if level < current and kind is UpgradeType.UPGRADE:
        raise _invalid(
            feature,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade.",
        )
    if level > current and kind is not UpgradeType.UPGRADE:
        raise _invalid(feature, level, "Can't downgrade to a newer version.")
    if feature == METADATA_VERSION and level < current:
        _check_metadata_downgrade(current, level, kind)


def _check_metadata_downgrade(current: int, level: int, kind: UpgradeType) -> None:
    """Raises InvalidUpdateVersion where the records of the current level can't be read at the new one."""
    if level >= OLDEST_WRITTEN_METADATA_VERSION and CHANGED_METADATA_VERSIONS.isdisjoint(
        range(level + 1, current + 1)
    ):
        return
    problem = (
        "Unsafe metadata downgrade is not supported in this version."
        if kind is UpgradeType.UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    raise InvalidUpdateVersion(f"Unsupported metadata.version downgrade from {current} to {level}. {problem}")


def _not_supported(
    image: MetadataImage, feature: str, level: int, voter_ids: Collection[int]
) -> Iterator[str]:
    """The reasons why nodes can't serve this level; none if all can."""
    nodes = [("The local controller", SUPPORTED_FEATURES.get(feature, DISABLED))]
    nodes += [
        (f"Broker {broker.broker_id}", _range(broker.features, feature)) for broker in image.brokers.values()
    ]
    nodes += [
        (f"Controller {controller.controller_id}", _range(controller.features, feature))
        for controller in image.controllers.values()
    ]
    for node, (smallest, largest) in nodes:
        if (smallest, largest) == DISABLED and level > 0:
            yield f"{node} does not support this feature."
        elif not smallest <= level <= largest:
            yield f"{node} only supports versions {smallest}-{largest}"
    for voter_id in voter_ids:
        if voter_id not in image.controllers:
            yield f"controller {voter_id} has not registered, and may not support this feature"


def _range(features: tuple[tuple[str, int, int], ...], feature: str) -> tuple[int, int]:
    for name, smallest, largest in features:
        if name == feature:
            return smallest, largest
    return DISABLED


def _invalid(feature: str, level: int, problem: str) -> InvalidUpdateVersion:
    return InvalidUpdateVersion(f"Invalid update version {level} for feature {feature}. {problem}")
