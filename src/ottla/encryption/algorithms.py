"""The algorithms of data encryption keys, byte for byte as Tink has them (its ciphertexts without a prefix).

A key is Tink's serialized message (`AesGcmKey`, `AesSivKey`; the version is 0, so it is left out): the tag of
one field, its length and the key itself. AES-GCM puts a random nonce of 12 bytes before the ciphertext, and
its tag of 16 behind it. AES-SIV puts its tag first; it is deterministic: equal values have equal ciphertexts.
"""

from __future__ import annotations

import enum
import os
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
KEPT_CIPHERS: Final = 256
_EMPTY: Final = [b""]
"""Tink's associated data: one text, which is empty. None at all would be another ciphertext."""


class WrongKey(ValueError):
    """A key that is none of its algorithm, or a ciphertext of another key; nothing was decrypted."""


class DekAlgorithm(enum.StrEnum):
    """The algorithms, in the order in which listings of Confluent's DEK registry have them."""

    AES128_GCM = "AES128_GCM"
    AES256_GCM = "AES256_GCM"
    AES256_SIV = "AES256_SIV"


DEFAULT_ALGORITHM: Final = DekAlgorithm.AES256_GCM
_PREFIXES: Final = {
    DekAlgorithm.AES128_GCM: b"\x1a\x10",
    DekAlgorithm.AES256_GCM: b"\x1a\x20",
    DekAlgorithm.AES256_SIV: b"\x12\x40",
}
"""Tag and length of the field that holds the key."""


def new_key(algorithm: DekAlgorithm) -> bytes:
    """A random key, as Tink's serialized message."""
    prefix = _PREFIXES[algorithm]
    return prefix + os.urandom(prefix[1])


def encrypt(algorithm: DekAlgorithm, key: bytes, plaintext: bytes) -> bytes:
    """The ciphertext. Raises WrongKey."""
    cipher = _cipher(algorithm, key)
    if isinstance(cipher, AESSIV):
        return cipher.encrypt(plaintext, _EMPTY)
    nonce = os.urandom(NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, plaintext, None)


def decrypt(algorithm: DekAlgorithm, key: bytes, ciphertext: bytes) -> bytes:
    """The plaintext. Raises WrongKey."""
    cipher = _cipher(algorithm, key)
    try:
        if isinstance(cipher, AESSIV):
            return cipher.decrypt(ciphertext, _EMPTY)
        return cipher.decrypt(ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:], None)
    except (InvalidTag, ValueError):
        raise WrongKey("it was not encrypted with this key, or is damaged") from None


@lru_cache(maxsize=KEPT_CIPHERS)
def _cipher(algorithm: DekAlgorithm, key: bytes) -> AESGCM | AESSIV:
    prefix = _PREFIXES[algorithm]
    secret = key[len(prefix) :]
    if not key.startswith(prefix) or len(secret) != prefix[1]:
        raise WrongKey(f"the key is none of {algorithm}")
    return AESSIV(secret) if algorithm is DekAlgorithm.AES256_SIV else AESGCM(secret)
