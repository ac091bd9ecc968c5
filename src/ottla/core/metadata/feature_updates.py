"""Changes of the cluster's feature levels: UpdateFeatures 0-2 (KIP-584).

v1 says upgrade, safe or unsafe downgrade, and validates without changing; from v2 on all updates of a request
succeed or none does, and the answer has one error.
"""

from __future__ import annotations

import enum

from ottla.core.metadata.decisions import Decision
from ottla.core.metadata.features import KRAFT_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from ottla.core.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode, InvalidUpdateVersion, KafkaError
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.schema import Message

FIRST_VERSION_OF_ALL_OR_NONE = 2


class UpgradeType(enum.IntEnum):
    """Which direction a client agrees to."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    image: MetadataImage, request: UpdateFeaturesRequest, api_version: int
) -> Decision[UpdateFeaturesResponse]:
    """The new levels. Whatever fails, no level changes: half of an upgrade helps nobody."""
    records: list[Message] = []
    results: list[UpdatableFeatureResult] = []
    failure: KafkaError | None = None
    for update in request.feature_updates:
        result = UpdatableFeatureResult(feature=update.feature, error_code=0, error_message=None)
        try:
            _check(image, update, api_version)
            if image.features.get(update.feature, 0) != update.max_version_level:
                records.append(
                    FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
                )
        except KafkaError as error:
            failure = failure or error
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    if request.validate_only or failure is not None:
        records = []
    if failure is not None and api_version >= FIRST_VERSION_OF_ALL_OR_NONE:
        return Decision([], UpdateFeaturesResponse(error_code=failure.code, error_message=failure.message))
    return Decision(
        records, UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results)
    )


def _check(image: MetadataImage, update: FeatureUpdateKey, api_version: int) -> None:
    feature, level = update.feature, update.max_version_level
    supported = SUPPORTED_FEATURES.get(feature)
    if supported is None or feature == KRAFT_VERSION:
        raise _invalid(feature, level, "This feature is not supported.")
    if not supported[0] <= level <= supported[1]:
        raise _invalid(feature, level, f"It must be between {supported[0]} and {supported[1]}.")
    if api_version == 0:
        kind = UpgradeType.UNSAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    elif update.upgrade_type in set(UpgradeType):
        kind = UpgradeType(update.upgrade_type)
    else:
        raise _invalid(feature, level, "The controller does not support the given upgrade type.")
    current = image.features.get(feature, 0)
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
