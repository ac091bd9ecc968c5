"""Values of fields, encrypted as Confluent's clients do: texts as base64 of the ciphertext, bytes as it is.

Where keys expire, a zero and the key's version (four bytes, big endian) stand before the ciphertext.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.encryption.algorithms import DekAlgorithm, WrongKey, decrypt, encrypt

PREFIX_BYTES: Final = 5
FIRST_VERSION: Final = 1


class VersionNeeded(Exception):
    """The key of this version is not there yet."""

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} of the key is needed")
        self.version = version


@dataclass(frozen=True, slots=True)
class FieldCipher:
    """Encrypts with the key of `version`; decrypts with any of `keys`. versioned: whether keys expire."""

    algorithm: DekAlgorithm
    keys: Mapping[int, bytes]
    version: int = FIRST_VERSION
    versioned: bool = False

    def encrypted(self, plaintext: bytes) -> bytes:
        """Raises WrongKey, VersionNeeded."""
        ciphertext = encrypt(self.algorithm, self._key(self.version), plaintext)
        return b"\0" + self.version.to_bytes(4, "big") + ciphertext if self.versioned else ciphertext

    def decrypted(self, ciphertext: bytes) -> bytes:
        """Raises WrongKey, VersionNeeded."""
        version = FIRST_VERSION
        if self.versioned:
            if len(ciphertext) < PREFIX_BYTES:
                raise WrongKey("it has no version of a key before it")
            version = int.from_bytes(ciphertext[1:PREFIX_BYTES], "big")
            ciphertext = ciphertext[PREFIX_BYTES:]
        return decrypt(self.algorithm, self._key(version), ciphertext)

    def encrypted_text(self, text: str) -> str:
        """Raises WrongKey, VersionNeeded, ValueError for half of a surrogate pair."""
        return b64encode(self.encrypted(text.encode())).decode()

    def decrypted_text(self, text: str) -> str:
        """Raises WrongKey, VersionNeeded."""
        try:
            ciphertext = b64decode(text, validate=True)
        except ValueError:
            raise WrongKey("the text is no ciphertext in base64") from None
        try:
            return self.decrypted(ciphertext).decode()
        except UnicodeDecodeError:
            raise WrongKey("what was encrypted is no text") from None

    def _key(self, version: int) -> bytes:
        key = self.keys.get(version)
        if key is None:
            raise VersionNeeded(version)
        return key
