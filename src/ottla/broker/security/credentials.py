"""SCRAM credentials as the metadata has them now."""

from __future__ import annotations

from typing import Protocol, cast

from ottla.broker.parts import Cluster
from ottla.core.security.sasl.scram import ScramCredential, ScramMechanism, TokenCredential
from ottla.protocol.records.user_scram_credential_record import UserScramCredentialRecord


class CredentialsNode(Cluster, Protocol):
    """The node as this module uses it."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        ...


class MetadataCredentials:
    """The credentials in the image of a node."""

    __slots__ = ("_node",)

    def __init__(self, node: CredentialsNode) -> None:
        self._node = node

    def user(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        """The user's credential, or None."""
        record = self._node.image.scram_credentials.get((mechanism.number, name))
        if record is None:
            return None
        kept = cast(UserScramCredentialRecord, record)
        return ScramCredential(
            bytes(kept.salt), bytes(kept.stored_key), bytes(kept.server_key), kept.iterations
        )

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """None: delegation tokens are not given out."""
        return None

    @property
    def salt_secret(self) -> bytes:
        """The cluster's id: all nodes know it, and clients only once they are authenticated."""
        return self._node.cluster_id.encode()
