"""AlterUserScramCredentials 0: users' SCRAM credentials in the metadata (KIP-554), as Kafka decides.

A client sends salted passwords, so no password reaches a controller. A user may be altered once a request;
all alterations of that user are refused otherwise. The others are made.
"""

from __future__ import annotations

from ottla.core.decisions.decision import Decision
from ottla.core.image.image import MetadataImage
from ottla.core.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, credential_of
from ottla.protocol.errors import (
    DuplicateResource,
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
