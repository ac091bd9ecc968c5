"""AlterUserScramCredentials 0 and DescribeUserScramCredentials 0: users' credentials (KIP-554).

A client sends salted passwords, so no password reaches a controller. A user may be altered once a request;
all alterations of that user are refused otherwise. The others are made. Error texts are Kafka's.
"""

from __future__ import annotations

from collections import Counter
from typing import cast

from ottla.core.decisions.decision import Decision
from ottla.core.image.image import MetadataImage
from ottla.core.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, credential_of
from ottla.protocol.errors import (
    DuplicateResource,
    ErrorCode,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from ottla.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from ottla.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.protocol.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ottla.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from ottla.protocol.schema import Message


def alter_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    """Set and remove credentials; errors are told user by user."""
    records: dict[str, Message] = {}
    errors: dict[str, KafkaError] = {}
    alterations: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions]
    alterations += request.upsertions
    for alteration in alterations:
        user = alteration.name
        if user in errors:
            continue
        if records.pop(user, None) is not None:
            errors[user] = DuplicateResource("A user credential cannot be altered twice in the same request")
            continue
        try:
            records[user] = _record(image, alteration)
        except KafkaError as error:
            errors[user] = error
    results = [AlterUserScramCredentialsResult(user=user) for user in records]
    results += [
        AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=str(error))
        for user, error in errors.items()
    ]
    return Decision(list(records.values()), AlterUserScramCredentialsResponse(results=results))


def describe_scram_credentials(
    image: MetadataImage, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """The mechanisms and iterations of users, of all of them where none is named; never a key."""
    infos: dict[str, list[CredentialInfo]] = {}
    for (mechanism, user), record in sorted(image.scram_credentials.items()):
        iterations = cast(UserScramCredentialRecord, record).iterations
        infos.setdefault(user, []).append(CredentialInfo(mechanism=mechanism, iterations=iterations))
    asked = Counter(each.name for each in request.users or ())
    results = []
    for user in asked or sorted(infos):
        result = DescribeUserScramCredentialsResult(user=user)
        if asked[user] > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = (
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            )
        elif user not in infos:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = f"Attempt to describe a user credential that does not exist: {user}"
        else:
            result.credential_infos = infos[user]
        results.append(result)
    return DescribeUserScramCredentialsResponse(results=results)


def _record(image: MetadataImage, alteration: ScramCredentialDeletion | ScramCredentialUpsertion) -> Message:
    if not alteration.name:
        raise UnacceptableCredential("Username must not be empty")
    mechanism = ScramMechanism.of_number(alteration.mechanism)
    if mechanism is None:
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    if isinstance(alteration, ScramCredentialDeletion):
        if (mechanism.number, alteration.name) not in image.scram_credentials:
            raise ResourceNotFound("Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(name=alteration.name, mechanism=mechanism.number)
    if alteration.iterations < MIN_ITERATIONS:
        raise UnacceptableCredential("Too few iterations")
    if alteration.iterations > MAX_ITERATIONS:
        raise UnacceptableCredential("Too many iterations")
    credential = credential_of(
        mechanism, bytes(alteration.salt), bytes(alteration.salted_password), alteration.iterations
    )
    return UserScramCredentialRecord(
        name=alteration.name,
        mechanism=mechanism.number,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
