"""Key services: they encrypt ("wrap") data encryption keys with a key that never leaves them.

Built in is `local-kms`, as Confluent's clients have it: its one key is derived from a secret text, so whoever
has the secret can unwrap. Other types (aws-kms, azure-kms, gcp-kms, hcvault) are refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ottla.encryption.algorithms import NONCE_BYTES

LOCAL: Final = "local-kms"
SECRET: Final = "secret"
"""The property that has the local service's secret, in the words of Confluent's clients."""
SECRET_VARIABLE: Final = "LOCAL_SECRET"
"""The variable of the environment that has it where no property does."""
_KEY_BYTES: Final = 16


class KeyServiceFailed(Exception):
    """A key was not wrapped or unwrapped; the message says why, without any key."""


@dataclass(frozen=True, slots=True)
class KeyServices:
    """The key services that can be used here. local_secret: of `local-kms`; without one it is refused."""

    local_secret: str | None = field(default=None, repr=False)

    def wrap(self, kms_type: str, kms_props: Mapping[str, str], key: bytes) -> bytes:
        """The key, encrypted by a service of this type. Raises KeyServiceFailed."""
        cipher = self._cipher(kms_type, kms_props)
        nonce = os.urandom(NONCE_BYTES)
        return nonce + cipher.encrypt(nonce, key, None)

    def unwrap(self, kms_type: str, kms_props: Mapping[str, str], wrapped: bytes) -> bytes:
        """The key that was wrapped. Raises KeyServiceFailed."""
        cipher = self._cipher(kms_type, kms_props)
        try:
            return cipher.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], None)
        except (InvalidTag, ValueError):
            raise KeyServiceFailed("the key was wrapped with another secret, or is damaged") from None

    def _cipher(self, kms_type: str, kms_props: Mapping[str, str]) -> AESGCM:
        if kms_type != LOCAL:
            raise KeyServiceFailed(f"no key service of the type {kms_type[:100]} is built in, only {LOCAL}")
        secret = kms_props.get(SECRET, self.local_secret)
        if not secret:
            raise KeyServiceFailed(f"the secret of {LOCAL} is not set ({SECRET_VARIABLE})")
        return _local_cipher(secret)


@lru_cache(maxsize=64)
def _local_cipher(secret: str) -> AESGCM:
    """HKDF with SHA-256, neither salt nor info, 16 bytes."""
    key = HKDF(SHA256(), _KEY_BYTES, salt=None, info=None).derive(secret.encode("utf-8", "surrogatepass"))
    return AESGCM(key)
