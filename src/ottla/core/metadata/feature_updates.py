"""Changes of the cluster's feature levels: UpdateFeatures 0-2 (KIP-584).

v1 says upgrade, safe or unsafe downgrade, and can validate without changing. All updates of a request
succeed or none does, and the answer has one error: half of an upgrade helps nobody. v2 tells no feature
apart any more.
"""

from __future__ import annotations

import enum

from ottla.core.metadata.decisions import Decision
from ottla.core.metadata.features import (
    KRAFT_VERSION,
    KRAFT_VERSION_LEVEL,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from ottla.core.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, InvalidUpdateVersion
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.schema import Message


class UpgradeType(enum.IntEnum):
    """Which direction a client agrees to."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    image: MetadataImage, request: UpdateFeaturesRequest, api_version: int
) -> Decision[UpdateFeaturesResponse]:
    """The new levels, for all features or none."""
    try:
        for update in request.feature_updates:
            _check(image, update, api_version)
    except InvalidUpdateVersion as error:
        problem = (
            f"The update failed for all features since the following feature had an error: {error.message}"
        )
        return Decision([], UpdateFeaturesResponse(error_code=error.code, error_message=problem))
    records: list[Message] = [
        FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
        for update in request.feature_updates
        if _current(image, update.feature) != update.max_version_level
    ]
    results = [
        UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE, error_message=None)
        for update in request.feature_updates
    ]
    return Decision(
        [] if request.validate_only else records,
        UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results),
    )


def _current(image: MetadataImage, feature: str) -> int:
    """A feature's level. That of kraft.version is no record of the metadata, and never changes."""
    return KRAFT_VERSION_LEVEL if feature == KRAFT_VERSION else image.features.get(feature, 0)


def _check(image: MetadataImage, update: FeatureUpdateKey, api_version: int) -> None:
    feature, level = update.feature, update.max_version_level
    supported = SUPPORTED_FEATURES.get(feature)
    if supported is None:
        raise _invalid(feature, level, "This feature is not supported.")
    if not supported[0] <= level <= supported[1]:
        raise _invalid(feature, level, f"It must be between {supported[0]} and {supported[1]}.")
    if feature == KRAFT_VERSION and level != KRAFT_VERSION_LEVEL:
        raise _invalid(feature, level, "The quorum's version can't be changed.")
    if api_version == 0:
        kind = UpgradeType.UNSAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    elif update.upgrade_type in set(UpgradeType):
        kind = UpgradeType(update.upgrade_type)
    else:
        raise _invalid(feature, level, "The controller does not support the given upgrade type.")
    current = _current(image, feature)
    if level < current and kind is UpgradeType.UPGRADE:
        raise _invalid(
            feature,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade.",
        )
    if level > current and kind is not UpgradeType.UPGRADE:
        raise _invalid(feature, level, "Can't downgrade to a newer version.")
    if feature == METADATA_VERSION and level < supported[1]:
        raise _invalid(feature, level, f"This version writes metadata of level {supported[1]} only.")


def _invalid(feature: str, level: int, problem: str) -> InvalidUpdateVersion:
    return InvalidUpdateVersion(f"Invalid update version {level} for feature {feature}. {problem}")
