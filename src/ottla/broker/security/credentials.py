"""SCRAM credentials as the metadata has them now: those of users, and delegation tokens."""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, cast

from ottla.broker.parts import Clock, Cluster
from ottla.broker.token_settings import token_rules
from ottla.core.decisions.delegation_tokens import token_of_record
from ottla.core.image.features import METADATA_VERSION
from ottla.core.security.delegation_tokens import token_credential
from ottla.core.security.principals import parse_principal
from ottla.core.security.sasl.scram import ScramCredential, ScramMechanism, TokenCredential
from ottla.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from ottla.protocol.schema import Message

KEPT_TOKEN_CREDENTIALS: Final = 1_000
"""Each costs 4,096 iterations (2 ms), which a client that logs in again need not pay for."""


class CredentialsNode(Cluster, Clock, Protocol):
    """The node as this module uses it."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        ...


class MetadataCredentials:
    """The credentials in the image of a node."""

    __slots__ = ("_first_users", "_node", "_of_tokens", "_read_first")

    def __init__(self, node: CredentialsNode, read_first: Callable[[], Sequence[Message]] = tuple) -> None:
        """read_first: gives the first records of the cluster, as the directory was formatted."""
        self._node = node
        self._read_first = read_first
        self._first_users: Mapping[tuple[int, str], Message] | None = None
        # By mechanism, token id and secret: nothing else of a token makes its credential.
        self._of_tokens: OrderedDict[tuple[ScramMechanism, str, bytes], ScramCredential] = OrderedDict()

    def user(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        """The user's credential, or None."""
        record = self._users().get((mechanism.number, name))
        if record is None:
            return None
        kept = cast(UserScramCredentialRecord, record)
        return ScramCredential(
            bytes(kept.salt), bytes(kept.stored_key), bytes(kept.server_key), kept.iterations
        )

    def _users(self) -> Mapping[tuple[int, str], Message]:
        """The users; those of the directory's formatting as long as no metadata is known to be committed.

        Controllers that log in to each other by SCRAM would never have a leader otherwise.
        """
        image = self._node.image
        if METADATA_VERSION in image.features:
            self._first_users = None
            return image.scram_credentials
        if self._first_users is None:
            users = (each for each in self._read_first() if isinstance(each, UserScramCredentialRecord))
            self._first_users = {(each.mechanism, each.name): each for each in users}
        return self._first_users

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """The credential of a delegation token that has not expired, or None."""
        record = self._node.image.delegation_tokens.get(token_id)
        secret = token_rules(self._node.config.layers).secret
        if record is None or secret is None:
            return None
        token = token_of_record(record)
        if token.is_expired(self._node.now_ms()):
            return None
        owner = parse_principal(token.owner)
        return TokenCredential(self._of_token(mechanism, token_id, secret), owner, token.expires_at_ms)

    def _of_token(self, mechanism: ScramMechanism, token_id: str, secret: bytes) -> ScramCredential:
        kept, key = self._of_tokens, (mechanism, token_id, secret)
        credential = kept.pop(key, None)
        if credential is None:
            # The same salt each time and on every node: a client may renew its session at any of them.
            salt = hmac.digest(secret, f"salt:{mechanism.mechanism_name}:{token_id}".encode(), "sha256")
            credential = token_credential(token_id, mechanism, secret, salt)
        kept[key] = credential
        if len(kept) > KEPT_TOKEN_CREDENTIALS:
            kept.popitem(last=False)
        return credential

    @property
    def salt_secret(self) -> bytes:
        """The cluster's id: all nodes know it, and clients only once they are authenticated."""
        return self._node.cluster_id.encode()
