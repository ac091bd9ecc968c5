"""Keys and ciphertexts beside those of Tink, as confluent-kafka uses it."""

from __future__ import annotations

import pytest
from confluent_kafka.schema_registry.rules.encryption.dek_registry.dek_registry_client import (
    DekAlgorithm as ClientAlgorithm,
)
from confluent_kafka.schema_registry.rules.encryption.encrypt_executor import Cryptor
from confluent_kafka.schema_registry.rules.encryption.localkms.local_client import LocalKmsClient
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.encryption.algorithms import DekAlgorithm, WrongKey, decrypt, encrypt, new_key
from ottla.encryption.key_services import LOCAL, KeyServiceFailed, KeyServices

CRYPTORS = {one: Cryptor(ClientAlgorithm(one.value)) for one in DekAlgorithm}
algorithms = st.sampled_from(DekAlgorithm)


@given(algorithms, st.binary(max_size=300))
def test_tink_reads_these_ciphertexts_and_is_read(algorithm: DekAlgorithm, plaintext: bytes) -> None:
    tink = CRYPTORS[algorithm]
    for key in (new_key(algorithm), tink.generate_key()):
        assert tink.decrypt(key, encrypt(algorithm, key, plaintext), b"") == plaintext
        assert decrypt(algorithm, key, tink.encrypt(key, plaintext, b"")) == plaintext


def test_only_siv_gives_equal_values_equal_ciphertexts() -> None:
    for algorithm in DekAlgorithm:
        key = new_key(algorithm)
        same = encrypt(algorithm, key, b"a") == encrypt(algorithm, key, b"a")
        assert same is (algorithm is DekAlgorithm.AES256_SIV)


@given(algorithms, st.binary(max_size=60), st.data())
def test_damaged_and_short_ciphertexts_are_refused(
    algorithm: DekAlgorithm, plaintext: bytes, data: st.DataObject
) -> None:
    key = new_key(algorithm)
    good = encrypt(algorithm, key, plaintext)
    at = data.draw(st.integers(0, len(good) - 1))
    for bad in (good[:at], good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :], good + b"\0"):
        with pytest.raises(WrongKey):
            decrypt(algorithm, key, bad)
    with pytest.raises(WrongKey):
        decrypt(algorithm, new_key(algorithm), good)


@given(algorithms, st.binary(max_size=80))
def test_a_key_of_another_form_is_refused(algorithm: DekAlgorithm, key: bytes) -> None:
    with pytest.raises(WrongKey):
        encrypt(algorithm, key, b"a")
    with pytest.raises(WrongKey):
        decrypt(algorithm, new_key(algorithm) + b"\0", b"a" * 40)


@settings(max_examples=30)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), st.binary(max_size=80))
def test_the_local_key_service_is_that_of_confluent_s_clients(secret: str, key: bytes) -> None:
    theirs = LocalKmsClient(secret).get_aead("local-kms://any")
    ours = KeyServices(secret)
    assert theirs.decrypt(ours.wrap(LOCAL, {}, key), b"") == key
    assert ours.unwrap(LOCAL, {}, theirs.encrypt(key, b"")) == key
    assert KeyServices("x").unwrap(LOCAL, {"secret": secret}, theirs.encrypt(key, b"")) == key
    with pytest.raises(KeyServiceFailed, match="another secret"):
        KeyServices(secret + "!").unwrap(LOCAL, {}, theirs.encrypt(key, b""))


def test_a_key_service_that_is_not_there_is_refused() -> None:
    for services, kms_type, reason in (
        (KeyServices(), LOCAL, "LOCAL_SECRET"),
        (KeyServices(""), LOCAL, "LOCAL_SECRET"),
        (KeyServices("s"), "aws-kms", "aws-kms"),
    ):
        for act in (services.wrap, services.unwrap):
            with pytest.raises(KeyServiceFailed, match=reason):
                act(kms_type, {}, b"a" * 40)
    assert "geheim" not in repr(KeyServices("geheim"))
