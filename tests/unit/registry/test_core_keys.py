"""Keys as records: byte for byte Confluent's, in any spelling, and the same image after every restart."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.encryption.algorithms import DekAlgorithm
from ottla.registry.core.keys.image import KeyImage
from ottla.registry.core.keys.model import Dek, Kek
from ottla.registry.core.keys.records import dek_record, encoded, kek_record
from ottla.registry.core.keys.writing import KekChange
from ottla.replicated.decision import Decision
from ottla.replicated.records import Record
from ottla.web.errors import ApiError
from support.registry.registry_core import InMemoryKeys

KEK = Kek("k", "local-kms", "id", {"b": "1", "a": "2"}, "doc", True)
DEK = Dek("k", "s", DekAlgorithm.AES256_GCM, 2, "YQ==", True)


def test_records_are_written_as_confluent_s_registry_does() -> None:
    assert kek_record(KEK) == Record(
        b'{"tenant":"default","name":"k","type":"KEK"}',
        b'{"name":"k","kmsType":"local-kms","kmsKeyId":"id","kmsProps":{"a":"2","b":"1"},"doc":"doc",'
        b'"shared":true,"deleted":false,"type":"KEK"}',
    )
    assert dek_record(DEK) == Record(
        b'{"tenant":"default","kekName":"k","subject":"s","algorithm":"AES256_GCM","version":2,"type":"DEK"}',
        b'{"kekName":"k","subject":"s","algorithm":"AES256_GCM","version":2,"encryptedKeyMaterial":"YQ==",'
        b'"deleted":true,"type":"DEK"}',
    )


def respelt(data: bytes) -> bytes:
    """The same JSON with its fields in another order, and spaces."""
    return json.dumps(dict(reversed(json.loads(data).items()))).encode()


def test_records_are_read_in_any_spelling_and_deleted_in_all() -> None:
    image = KeyImage()
    for record in (kek_record(KEK), dek_record(DEK)):
        assert record.value is not None
        image.replay(respelt(record.key), respelt(record.value), 7)
    assert image.kek("k") == Kek(**{**fields(KEK), "timestamp_ms": 7})
    assert image.dek(DEK.id) == Dek(**{**fields(DEK), "timestamp_ms": 7})
    assert [record.key for record in image.tombstones(DEK.id)] == [respelt(encoded(DEK.id)), encoded(DEK.id)]
    for record in image.tombstones(KEK.id):
        image.replay(record.key, None, 8)
    assert image.kek("k") is None and image.tombstones(KEK.id) == [Record(encoded(KEK.id), None)]


def fields(key: Any) -> dict[str, Any]:
    return {name: getattr(key, name) for name in key.__slots__}


def test_unreadable_records_and_other_tenants_are_left_out() -> None:
    image = KeyImage()
    good = kek_record(KEK)
    for key, value in (
        (b"{", b"{}"),
        (b"[]", b"{}"),
        (b'{"type":"KEK"}', b"{}"),
        (b'{"type":"NONE"}', b"{}"),
        (b'{"type":"KEK","name":"x","tenant":"other"}', good.value),
        (b'{"type":"KEK","name":"x"}', b'{"kmsType":7}'),
        (b'{"type":"KEK","name":"x"}', b'{"kmsType":"a","kmsKeyId":"b","kmsProps":{"a":7}}'),
        (encoded(DEK.id).replace(b"AES256_GCM", b"ROT13"), dek_record(DEK).value),
        (encoded(DEK.id).replace(b":2,", b":0,"), dek_record(DEK).value),
    ):
        image.replay(key, value, 7)
    assert image.keks() == [] and not list(image.all_deks())
    assert (image.kek_count, image.dek_count) == (0, 0)


names = st.sampled_from(["a", "b"])
subjects = st.sampled_from(["s", ":.c:s"])
algorithms = st.sampled_from([DekAlgorithm.AES256_GCM, DekAlgorithm.AES256_SIV])
flags = st.booleans()


def decided(keys: InMemoryKeys, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Decision[Any]:
    """A drawn decision. Raises ApiError."""
    writes, name, subject, algorithm = keys.writes, draw(names), draw(subjects), draw(algorithms)
    version = draw(st.integers(1, 2) | st.none())
    match draw(st.integers(0, 6)):
        case 0:
            return writes.create_kek(Kek(name, "local-kms", "i", {}, shared=draw(flags)))
        case 1:
            change = KekChange(doc=draw(st.sampled_from(["x", "y"])), shared=draw(flags))
            return writes.change_kek(name, change)
        case 2:
            return writes.delete_kek(name, draw(flags))
        case 3:
            return writes.undelete_kek(name)
        case 4:
            dek = Dek(name, subject, algorithm, version or 1, draw(st.sampled_from([None, "YQ=="])))
            return writes.create_dek(dek, rewrap=draw(flags), told=False)
        case 5:
            return writes.delete_dek(name, subject, version, algorithm, draw(flags))
    return writes.undelete_dek(name, subject, version, algorithm)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_restart_finds_the_same_keys(data: st.DataObject) -> None:
    """Drawn decisions, applied; then another instance reads all records, or those that compaction leaves."""
    keys = InMemoryKeys()
    for _ in range(data.draw(st.integers(1, 25))):
        try:
            keys.apply(decided(keys, data.draw))
        except ApiError as refused:
            assert refused.error_code in (40470, 40471, 40472, 40971, 42271, 42272, 50070)
    for other in (keys.restarted(), keys.restarted(compacted=True)):
        assert other.image.keks() == keys.image.keks()
        assert set(other.image.all_deks()) == set(keys.image.all_deks())
        assert other.image.dek_count == keys.image.dek_count == len(list(keys.image.all_deks()))
    for dek in keys.image.all_deks():
        assert keys.image.kek(dek.kek_name) is not None, (
            "a key whose wrapping key is gone could never be read"
        )
        assert keys.image.dek(dek.id) is dek
