"""Users' SCRAM credentials: altered, refused, altered twice, described."""

from __future__ import annotations

import pytest

from ottla.core.decisions.scram_credentials import alter_scram_credentials, describe_scram_credentials
from ottla.core.image.image import MetadataImage
from ottla.core.security.sasl.scram import ScramMechanism
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from support.core.metadata import apply

SHA_256, SHA_512 = 1, 2


def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    known = ScramMechanism.of_number(mechanism) or ScramMechanism.SHA_256
    salted = known.salted_password(b"secret", b"salt", iterations)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def deletion(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def altered(
    image: MetadataImage, *alterations: ScramCredentialDeletion | ScramCredentialUpsertion
) -> dict[str, int]:
    """Apply the alterations; user -> error code."""
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in alterations if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in alterations if isinstance(each, ScramCredentialUpsertion)],
    )
    decision = alter_scram_credentials(image, request)
    apply(image, decision.records)
    return {result.user: result.error_code for result in decision.response.results}


def test_credentials_are_set_replaced_and_removed() -> None:
    image = MetadataImage()
    assert altered(image, upsertion("alice"), upsertion("bob", SHA_512, 16384)) == {"alice": 0, "bob": 0}
    assert set(image.scram_credentials) == {(SHA_256, "alice"), (SHA_512, "bob")}
    assert altered(image, upsertion("alice", iterations=8192), deletion("bob", SHA_512)) == {
        "alice": 0,
        "bob": 0,
    }
    ((key, record),) = image.scram_credentials.items()
    assert key == (SHA_256, "alice")
    assert getattr(record, "iterations", 0) == 8192
    assert b"secret" not in record.encode(0)


@pytest.mark.parametrize(
    ("alteration", "code"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("alice", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("alice", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("alice", mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (deletion("alice", mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (deletion("alice"), ErrorCode.RESOURCE_NOT_FOUND),
        (deletion("bob", SHA_512), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_an_alteration_that_can_not_be_is_refused(
    alteration: ScramCredentialDeletion | ScramCredentialUpsertion, code: ErrorCode
) -> None:
    image = MetadataImage()
    altered(image, upsertion("bob"))
    assert altered(image, alteration, upsertion("carol")) == {alteration.name: code, "carol": 0}


@pytest.mark.parametrize(
    "twice",
    [
        (upsertion("alice"), upsertion("alice", SHA_512)),
        (deletion("alice"), upsertion("alice")),
        (deletion("alice"), deletion("alice", SHA_512)),
        (upsertion("alice"), upsertion("alice"), upsertion("alice")),
    ],
)
def test_a_user_is_altered_once_a_request(
    twice: tuple[ScramCredentialDeletion | ScramCredentialUpsertion, ...],
) -> None:
    image = MetadataImage()
    altered(image, upsertion("alice", iterations=5000))
    before = dict(image.scram_credentials)
    assert altered(image, *twice) == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert image.scram_credentials == before


def described(image: MetadataImage, users: list[str] | None) -> dict[str, int | list[tuple[int, int]]]:
    """User -> mechanisms with their iterations, or an error code."""
    names = None if users is None else [UserName(name=user) for user in users]
    response = describe_scram_credentials(image, DescribeUserScramCredentialsRequest(users=names))
    assert response.error_code == 0
    return {
        result.user: result.error_code
        or [(info.mechanism, info.iterations) for info in result.credential_infos]
        for result in response.results
    }


def test_credentials_are_described_without_their_keys() -> None:
    image = MetadataImage()
    altered(image, upsertion("alice"))
    altered(image, upsertion("alice", SHA_512, 8192), upsertion("bob"))
    everybody = {"alice": [(SHA_256, 4096), (SHA_512, 8192)], "bob": [(SHA_256, 4096)]}
    assert described(image, None) == described(image, []) == everybody
    assert described(image, ["bob", "carol", "alice", "alice"]) == {
        "bob": [(SHA_256, 4096)],
        "carol": ErrorCode.RESOURCE_NOT_FOUND,
        "alice": ErrorCode.DUPLICATE_RESOURCE,
    }
