"""Changes of feature levels."""

from __future__ import annotations

import pytest

from ottla.core.metadata.feature_updates import update_features
from ottla.core.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.update_features_response import UpdateFeaturesResponse
from support.metadata import decided, image_with_brokers

UPGRADE, SAFE_DOWNGRADE = 1, 2


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


def test_validation_changes_nothing(image: MetadataImage) -> None:
    assert update(image, ("group.version", 0, SAFE_DOWNGRADE), validate_only=True).error_code == 0
    assert image.features["group.version"] == 1


def test_one_that_fails_fails_all(image: MetadataImage) -> None:
    answer = update(image, ("transaction.version", 1, SAFE_DOWNGRADE), ("nonsense", 1, UPGRADE))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert image.features["transaction.version"] == 2


@pytest.mark.parametrize(
    ("name", "level", "kind"),
    [
        ("nonsense", 1, UPGRADE),
        ("group.version", 9, UPGRADE),
        ("group.version", -1, UPGRADE),
        ("group.version", 0, UPGRADE),
        ("group.version", 0, 9),
        ("metadata.version", 29, SAFE_DOWNGRADE),
        ("metadata.version", 31, UPGRADE),
        ("kraft.version", 0, SAFE_DOWNGRADE),
    ],
)
def test_what_is_refused(image: MetadataImage, name: str, level: int, kind: int) -> None:
    assert update(image, (name, level, kind)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert image == image_with_brokers([1])
