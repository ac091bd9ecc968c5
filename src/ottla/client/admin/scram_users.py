"""Users with SCRAM credentials (KIP-554): listed, given passwords, and deleted.

The password itself does not leave the client: the cluster gets the salted one.
"""

from __future__ import annotations

import enum
import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.cluster_requests import ClusterRequests, refusal, require_success
from ottla.client.errors import ClusterError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from ottla.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ottla.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
)

SALT_BYTES: Final = 24
DEFAULT_ITERATIONS: Final = 8_192
FEWEST_ITERATIONS: Final = 4_096
MOST_ITERATIONS: Final = 16_384
"""Kafka's bounds; the rules of SCRAM have no largest number."""


class Mechanism(enum.IntEnum):
    """The mechanisms that have credentials."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def word(self) -> str:
        """The mechanism's name, `SCRAM-SHA-256`."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """hashlib's name of the hash."""
        return "sha256" if self is Mechanism.SCRAM_SHA_256 else "sha512"


class Credential(NamedTuple):
    """A user's credential of one mechanism, without its secrets."""

    mechanism: Mechanism
    iterations: int


class Upsertion(NamedTuple):
    """A password for a user and mechanism. Printed, it is hidden."""

    user: str
    mechanism: Mechanism
    iterations: int
    password: str

    def __repr__(self) -> str:
        return f"Upsertion({self.user}, {self.mechanism}, {self.iterations}, [hidden])"


async def describe_users(
    requests: ClusterRequests, names: Sequence[str] | None = None
) -> dict[str, list[Credential] | ClusterError]:
    """The credentials of users by name, of all with None. Raises ClusterError."""
    wanted = None if names is None else [UserName(name=name) for name in dict.fromkeys(names)]
    request = DescribeUserScramCredentialsRequest(users=wanted)
    answer = await requests.ask(request, DescribeUserScramCredentialsResponse)
    require_success(answer.error_code, answer.error_message)
    found: dict[str, list[Credential] | ClusterError] = {}
    for result in sorted(answer.results, key=lambda one: one.user):
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            found[result.user] = ClusterError(f"user {result.user} does not exist", result.error_code)
        elif result.error_code:
            found[result.user] = refusal(result.error_code, result.error_message, f"user {result.user}")
        else:
            found[result.user] = sorted(
                Credential(Mechanism(one.mechanism), one.iterations)
                for one in result.credential_infos
                if one.mechanism in set(Mechanism)
            )
    return found


async def alter_users(
    requests: ClusterRequests,
    upsertions: Iterable[Upsertion] = (),
    deletions: Iterable[tuple[str, Mechanism]] = (),
) -> Mapping[str, ClusterError | None]:
    """Give users passwords, and take credentials away. None, or the first error, of each user.

    A user of several mechanisms costs a request for each: the cluster alters a user once a request. Raises
    ClusterError where no broker answers.
    """
    rounds: list[AlterUserScramCredentialsRequest] = []
    turns: Counter[str] = Counter()

    def turn_of(user: str) -> AlterUserScramCredentialsRequest:
        if turns[user] == len(rounds):
            rounds.append(AlterUserScramCredentialsRequest(upsertions=[], deletions=[]))
        turns[user] += 1
        return rounds[turns[user] - 1]

    for one in upsertions:
        turn_of(one.user).upsertions.append(_salted(one))
    for name, mechanism in deletions:
        turn_of(name).deletions.append(ScramCredentialDeletion(name=name, mechanism=mechanism))
    done: dict[str, ClusterError | None] = {}
    for request in rounds:
        answer = await requests.ask_controller(request, AlterUserScramCredentialsResponse)
        for result in answer.results:
            code, name = result.error_code, result.user
            problem = refusal(code, result.error_message, f"user {name}") if code else None
            done[name] = done.get(name) or problem
    return done


def _salted(wanted: Upsertion) -> ScramCredentialUpsertion:
    salt = secrets.token_bytes(SALT_BYTES)
    algorithm, iterations = wanted.mechanism.hash_name, wanted.iterations
    return ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=wanted.mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(algorithm, wanted.password.encode(), salt, iterations),
    )
