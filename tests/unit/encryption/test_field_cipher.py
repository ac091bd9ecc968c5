"""Fields' values as Confluent's clients write them: base64 for texts, the key's version where keys expire."""

from __future__ import annotations

from base64 import b64decode

import pytest

from ottla.encryption.algorithms import DekAlgorithm, WrongKey, decrypt, new_key
from ottla.encryption.field_cipher import FieldCipher, VersionNeeded

KEYS = {version: new_key(DekAlgorithm.AES256_GCM) for version in (1, 3)}


@pytest.mark.parametrize("text", ["", "a", "äß€😀\0"])
def test_texts_come_back(text: str) -> None:
    for versioned in (False, True):
        cipher = FieldCipher(DekAlgorithm.AES256_GCM, KEYS, 3 if versioned else 1, versioned)
        assert cipher.decrypted_text(cipher.encrypted_text(text)) == text


def test_the_version_of_a_key_that_expires_stands_before_the_ciphertext() -> None:
    cipher = FieldCipher(DekAlgorithm.AES256_GCM, KEYS, 3, True)
    written = b64decode(cipher.encrypted_text("a"))
    assert written[:5] == b"\0\0\0\0\3"
    assert decrypt(DekAlgorithm.AES256_GCM, KEYS[3], written[5:]) == b"a"
    with pytest.raises(VersionNeeded) as needed:
        FieldCipher(DekAlgorithm.AES256_GCM, {}, 1, True).decrypted(written)
    assert needed.value.version == 3


@pytest.mark.parametrize("text", ["", "AAAA", "no base64!", "ä", "AA" * 40])
@pytest.mark.parametrize("versioned", [False, True])
def test_what_is_no_ciphertext_is_refused(text: str, versioned: bool) -> None:
    with pytest.raises((WrongKey, VersionNeeded)):
        FieldCipher(DekAlgorithm.AES256_GCM, {1: KEYS[1]}, 1, versioned).decrypted_text(text)
