"""The DEK registry's REST API: keys made, read, deleted and undeleted, with Confluent's codes and texts."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest

from ottla.encryption.algorithms import DekAlgorithm, decrypt, encrypt
from ottla.encryption.key_services import LOCAL, KeyServices
from ottla.registry.app import registry_application
from ottla.registry.core.keys.model import Dek
from ottla.registry.core.keys.records import dek_record
from support.registry.registry_core import FIRST_TIMESTAMP_MS, InMemoryRegistry
from support.registry.registry_http import RegistryHttp

KEKS = "/dek-registry/v1/keks"
SECRET = "a secret"
WRAPPED = b64encode(b"wrapped by a client").decode()


@pytest.fixture
def registry() -> InMemoryRegistry:
    return InMemoryRegistry({"ottla.local.kms.secret": SECRET})


@pytest.fixture
def http(registry: InMemoryRegistry) -> RegistryHttp:
    return RegistryHttp(registry_application(registry))


def kek(name: str = "k", **fields: Any) -> dict[str, Any]:
    return {"name": name, "kmsType": "local-kms", "kmsKeyId": "id", **fields}


def told(http: RegistryHttp, method: str, path: str, body: Any = None) -> tuple[int, str]:
    """Error code and message."""
    answer = http.ask(method, KEKS + path, body)
    return answer.json()["error_code"], answer.json()["message"]


def done(http: RegistryHttp, method: str, path: str) -> None:
    answer = http.ask(method, KEKS + path)
    assert (answer.status_code, answer.content) == (204, b""), answer.text


# -- key encryption keys ------------------------------------------------------------------------------


def test_a_kek_is_made_changed_and_listed(http: RegistryHttp) -> None:
    made = http.post(KEKS, kek(kmsProps={"b": "1", "a": "2"}, doc="of tests"))
    assert made == {
        **kek(kmsProps={"a": "2", "b": "1"}, doc="of tests", shared=False),
        "ts": FIRST_TIMESTAMP_MS,
    }
    assert http.get(f"{KEKS}/k") == made
    changed = http.put(f"{KEKS}/k", {"doc": None, "kmsProps": {"c": "3"}})
    assert changed == {**kek(kmsProps={"c": "3"}, shared=False), "ts": FIRST_TIMESTAMP_MS + 1}
    assert http.put(f"{KEKS}/k", {"shared": None}) == changed, "the same again is no change"
    assert http.put(f"{KEKS}/k", {"kmsProps": None})["kmsProps"] == {}
    for name in ("b", "_a", "ä1-x"):
        http.post(KEKS, kek(name))
    assert http.get(KEKS) == ["_a", "b", "k", "ä1-x"]
    assert http.get(f"{KEKS}?offset=1&limit=2") == ["b", "k"]
    for all_of_them in ("limit=0", "limit=-1", "offset=-5"):
        assert len(http.get(f"{KEKS}?{all_of_them}")) == 4


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (kek(""), "name"),
        (kek(None), "name"),  # type: ignore[arg-type]
        (kek("1a"), "name"),
        (kek("-a"), "name"),
        (kek("a.b"), "name"),
        (kek("a/b"), "name"),
        (kek("a" * 257), "name"),
        (kek(kmsKeyId=None), "kmsKeyId"),
        (kek(kmsKeyId=""), "kmsKeyId"),
        (kek(kmsKeyId="a" * 5_000), "kmsKeyId"),
        (kek(kmsType=None), "kmsType"),
        (kek(kmsType="aws-kms"), "kmsKeyId"),
        (kek(kmsType="azure-kms", kmsKeyId="http://v"), "kmsKeyId"),
        (kek(kmsType="gcp-kms"), "kmsKeyId"),
        (kek(kmsType="hcvault"), "kmsKeyId"),
        (kek(doc="a" * 20_000), "doc"),
        (kek(kmsProps={"a": "a" * 20_000}), "kmsProps"),
        (kek(kmsProps={str(number): "" for number in range(101)}), "kmsProps"),
    ],
)
def test_a_kek_with_a_wrong_field_is_refused(http: RegistryHttp, given: dict[str, Any], field: str) -> None:
    code, message = told(http, "POST", "", given)
    assert (code, message) == (42271, f"Invalid or missing value for field '{field}' of key")
    assert http.get(KEKS) == []


def test_a_secret_is_not_kept_beside_the_keys_that_it_protects(http: RegistryHttp) -> None:
    code, message = told(http, "POST", "", kek(kmsProps={"secret": "geheim"}))
    assert code == 42271 and "LOCAL_SECRET" in message and "geheim" not in message
    http.post(KEKS, kek())
    assert told(http, "PUT", "/k", {"kmsProps": {"secret": "geheim"}})[0] == 42271


@pytest.mark.parametrize(
    "given",
    [kek(shared="yes"), kek(kmsProps=["a"]), kek(kmsProps={"a": 1}), kek(doc=7), [], 7],
)
def test_fields_of_a_wrong_type_are_refused(http: RegistryHttp, given: Any) -> None:
    assert http.refusal("POST", KEKS, given) == (400, 400)
    assert http.ask("POST", KEKS, {**kek(), "unknown": 1}).status_code == 200, "unknown fields are left out"


def test_types_of_key_services_have_their_full_names(http: RegistryHttp) -> None:
    for name, kms_type, key_id, full in (
        ("a", "AWS", "arn:aws:kms:x", "aws-kms"),
        ("b", "azure-kms", "https://v", "azure-kms"),
        ("c", "GCP-x", "projects/p", "gcp-kms"),
        ("d", "other", "id", "other"),
    ):
        assert http.post(KEKS, kek(name, kmsType=kms_type, kmsKeyId=key_id))["kmsType"] == full


def test_a_kek_goes_in_two_steps_and_comes_back(http: RegistryHttp) -> None:
    http.post(KEKS, kek())
    assert told(http, "POST", "", kek()) == (40971, "Key 'k' already exists; use a different value")
    not_deleted = "Key 'k' was not deleted first before being permanently deleted"
    assert told(http, "DELETE", "/k?permanent=true") == (40471, not_deleted)
    for _ in range(2):
        done(http, "DELETE", "/k")
    assert told(http, "GET", "/k") == (40470, "Key 'k' not found")
    assert told(http, "PUT", "/k", {"doc": "a"})[0] == 40470
    assert http.get(f"{KEKS}/k?deleted=true")["deleted"] is True
    assert (http.get(KEKS), http.get(f"{KEKS}?deleted=true")) == ([], ["k"])
    assert told(http, "POST", "", kek(doc="another"))[0] == 40971
    assert "deleted" not in http.post(KEKS, kek()), "made as it was, it is undeleted"
    done(http, "DELETE", "/k")
    done(http, "POST", "/k/undelete")
    assert "deleted" not in http.get(f"{KEKS}/k")
    done(http, "DELETE", "/k")
    done(http, "DELETE", "/k?permanent=true")
    for method, path in (("GET", "/k?deleted=true"), ("DELETE", "/k"), ("POST", "/k/undelete")):
        assert told(http, method, path)[0] == 40470


def test_a_kek_with_keys_is_not_deleted(http: RegistryHttp) -> None:
    http.post(KEKS, kek())
    http.post(f"{KEKS}/k/deks/s", {"encryptedKeyMaterial": WRAPPED})
    referenced = (42272, "One or more references exist to the key 'k'")
    assert told(http, "DELETE", "/k") == referenced
    done(http, "DELETE", "/k/deks/s")
    done(http, "DELETE", "/k")
    assert told(http, "DELETE", "/k?permanent=true") == referenced
    done(http, "DELETE", "/k/deks/s?permanent=true")
    done(http, "DELETE", "/k?permanent=true")


def test_sharing_is_tested(http: RegistryHttp) -> None:
    http.post(f"{KEKS}?testSharing=true", kek(shared=True))
    assert http.post(f"{KEKS}/k/test", {})["name"] == "k"
    aws = kek("a", kmsType="aws-kms", kmsKeyId="arn:aws:kms:x", shared=True)
    answer = http.ask("POST", f"{KEKS}?testSharing=true", aws)
    assert (answer.status_code, answer.json()["error_code"]) == (500, 50070)
    assert answer.json()["message"].startswith("Could not generate encrypted dek for __TEST: ")
    http.post(KEKS, aws)
    assert told(http, "POST", "/a/test")[0] == 50070
    http.post(KEKS, kek("own"))
    assert told(http, "POST", "/own/test") == (42271, "Invalid or missing value for field 'shared' of key")
    assert told(http, "POST", "/none/test")[0] == 40470


# -- data encryption keys -----------------------------------------------------------------------------


def test_a_dek_that_a_client_has_wrapped(http: RegistryHttp) -> None:
    http.post(KEKS, kek())
    made = http.post(f"{KEKS}/k/deks/s", {"encryptedKeyMaterial": WRAPPED, "algorithm": "AES256_SIV"})
    assert made == {
        "kekName": "k",
        "subject": "s",
        "version": 1,
        "algorithm": "AES256_SIV",
        "encryptedKeyMaterial": WRAPPED,
        "ts": FIRST_TIMESTAMP_MS + 1,
    }
    assert http.get(f"{KEKS}/k/deks/s?algorithm=AES256_SIV") == made
    assert told(http, "GET", "/k/deks/s") == (40470, "Key 's' not found"), "of the default algorithm"
    assert told(http, "GET", "/other/deks/s") == (40470, "Key 'other' not found")
    assert told(http, "POST", "/other/deks/s", {})[0] == 40470
    missing = (42271, "Invalid or missing value for field 'encryptedKeyMaterial' of key")
    for material in (None, "", "no base64!", "ä", "a" * 9_000):
        assert told(http, "POST", "/k/deks/t", {"encryptedKeyMaterial": material}) == missing
    for version in (0, -1, 2**31, "1", 1.5, True):
        body = {"encryptedKeyMaterial": WRAPPED, "version": version}
        assert told(http, "POST", "/k/deks/t", body)[0] == 42271
    assert http.refusal("POST", f"{KEKS}/k/deks/t", {"algorithm": "ROT13"}) == (400, 400)
    assert http.refusal("GET", f"{KEKS}/k/deks/s?algorithm=ROT13") == (404, 404)
    for subject in ("%00", "a%0Ab", "a" * 2_000):
        assert told(http, "POST", f"/k/deks/{subject}", {"encryptedKeyMaterial": WRAPPED})[0] == 42271
    assert told(http, "POST", "/k/deks", {"encryptedKeyMaterial": WRAPPED})[0] == 42271


def test_versions_of_a_dek(http: RegistryHttp) -> None:
    http.post(KEKS, kek())
    for version in (3, 1, 10):
        http.post(f"{KEKS}/k/deks", {"subject": "s", "version": version, "encryptedKeyMaterial": WRAPPED})
    assert http.get(f"{KEKS}/k/deks/s/versions") == [1, 3, 10]
    assert http.get(f"{KEKS}/k/deks/s/versions?offset=1&limit=1") == [3]
    for latest in ("latest", "-1", "10"):
        assert http.get(f"{KEKS}/k/deks/s/versions/{latest}")["version"] == 10
    assert http.get(f"{KEKS}/k/deks/s")["version"] == 1
    assert told(http, "GET", "/k/deks/s/versions/2")[0] == 40470
    assert told(http, "GET", "/k/deks/s/versions/x")[0] == 42202
    assert http.get(f"{KEKS}/k/deks/none/versions") == []
    done(http, "DELETE", "/k/deks/s/versions/10")
    assert http.get(f"{KEKS}/k/deks/s/versions/latest")["version"] == 3
    assert http.get(f"{KEKS}/k/deks/s/versions/latest?deleted=true")["version"] == 10
    assert http.get(f"{KEKS}/k/deks/s/versions?deleted=true") == [1, 3, 10]
    not_deleted = (40471, "Key 's' was not deleted first before being permanently deleted")
    assert told(http, "DELETE", "/k/deks/s?permanent=true") == not_deleted
    assert told(http, "DELETE", "/k/deks/s/versions/3?permanent=true") == not_deleted
    done(http, "POST", "/k/deks/s/versions/10/undelete")
    done(http, "DELETE", "/k/deks/s")
    assert (http.get(f"{KEKS}/k/deks"), http.get(f"{KEKS}/k/deks?deleted=true")) == ([], ["s"])
    done(http, "DELETE", "/k")
    for path in ("/k/deks/s/undelete", "/k/deks/s/versions/1/undelete"):
        assert told(http, "POST", path) == (40472, "Key 'k' must be undeleted first")
    done(http, "POST", "/k/undelete")
    done(http, "POST", "/k/deks/s/undelete")
    assert http.get(f"{KEKS}/k/deks/s/versions") == [1, 3, 10]
    assert told(http, "DELETE", "/k/deks/none")[0] == 40470


def test_a_dek_that_is_there_is_made_again_only_after_its_deletion(http: RegistryHttp) -> None:
    http.post(KEKS, kek())
    body = {"encryptedKeyMaterial": WRAPPED}
    http.post(f"{KEKS}/k/deks/s", body)
    exists = (40971, "Key 's' already exists; use a different value")
    assert told(http, "POST", "/k/deks/s", body) == exists
    done(http, "DELETE", "/k/deks/s")
    other = {"encryptedKeyMaterial": b64encode(b"other").decode()}
    assert told(http, "POST", "/k/deks/s", other) == exists
    assert "deleted" not in http.post(f"{KEKS}/k/deks/s", body)
    assert http.post(f"{KEKS}/k/deks/s?rewrap=true", other)["encryptedKeyMaterial"] != WRAPPED
    assert http.post(f"{KEKS}/k/deks/t", {**body, "deleted": True})["deleted"] is True


@pytest.mark.parametrize("algorithm", DekAlgorithm)
def test_a_dek_of_a_shared_kek_is_made_and_told_by_the_registry(
    http: RegistryHttp, registry: InMemoryRegistry, algorithm: DekAlgorithm
) -> None:
    http.post(KEKS, kek(shared=True))
    made = http.post(f"{KEKS}/k/deks/s", {"algorithm": algorithm})
    key = b64decode(made["keyMaterial"])
    assert KeyServices(SECRET).unwrap(LOCAL, {}, b64decode(made["encryptedKeyMaterial"])) == key
    assert decrypt(algorithm, key, encrypt(algorithm, key, b"a")) == b"a"
    assert http.get(f"{KEKS}/k/deks/s/versions/latest?algorithm={algorithm}") == made
    assert not any(key in (record.value or b"") for record, _ in registry.keys.records)
    # wrapped anew it stays the same key
    again = http.post(f"{KEKS}/k/deks/s?rewrap=true", {"algorithm": algorithm})
    assert again["keyMaterial"] == made["keyMaterial"]
    assert again["encryptedKeyMaterial"] != made["encryptedKeyMaterial"]
    imported = {"algorithm": algorithm, "encryptedKeyMaterial": made["encryptedKeyMaterial"]}
    assert told(http, "POST", "/k/deks/s?rewrap=true", imported)[0] == 40971
    assert http.post(f"{KEKS}/k/deks/t", imported)["keyMaterial"] == made["keyMaterial"]
    # a key that is none, or of another algorithm, is refused before it is kept
    junk = b64encode(KeyServices(SECRET).wrap(LOCAL, {}, b"no key")).decode()
    for material in (WRAPPED, junk):
        code, message = told(http, "POST", "/k/deks/u", {"encryptedKeyMaterial": material})
        assert code == 50070 and message.startswith("Could not generate raw dek for u: ")
    assert told(http, "GET", "/k/deks/u")[0] == 40470
    http.put(f"{KEKS}/k", {"shared": False})
    assert "keyMaterial" not in http.get(f"{KEKS}/k/deks/s?algorithm={algorithm}")


def test_a_record_without_a_key_that_can_be_unwrapped_is_told(
    http: RegistryHttp, registry: InMemoryRegistry
) -> None:
    http.post(KEKS, kek(shared=True))
    for material in (None, "ä", "no base64", WRAPPED):
        registry.keys.replay(dek_record(Dek("k", "s", DekAlgorithm.AES256_GCM, 1, material)))
        code, message = told(http, "GET", "/k/deks/s")
        assert code == 50070 and message.startswith("Could not generate raw dek for s: ")


def test_a_subject_in_import_mode_gets_no_key_told(http: RegistryHttp) -> None:
    http.post(KEKS, kek(shared=True))
    http.put("/mode/s", {"mode": "IMPORT"})
    assert "keyMaterial" not in http.post(f"{KEKS}/k/deks/s", {"encryptedKeyMaterial": WRAPPED})


def test_contexts_aliases_and_prefixes_of_subjects(http: RegistryHttp) -> None:
    for name in ("k", "l"):
        http.post(KEKS, kek(name))
    body = {"encryptedKeyMaterial": WRAPPED}
    assert http.post(f"/contexts/.c{KEKS}/k/deks/s", body)["subject"] == ":.c:s"
    assert http.get(f"/contexts/c{KEKS}/k/deks/s") == http.get(f"{KEKS}/k/deks/%3A.c%3As")
    http.post(f"{KEKS}/l/deks/a%2Fb", body)
    assert http.get(f"{KEKS}/l/deks") == ["a/b"]
    assert http.get(f"{KEKS}?subjectPrefix=a") == ["l"]
    assert http.get(f"{KEKS}?subjectPrefix=a&subjectPrefix=:.c:") == ["k", "l"]
    http.put("/config/short", {"alias": "long"})
    assert http.post(f"{KEKS}/k/deks/short", body)["subject"] == "long"
    http.put("/config/short", {"aliasForDeks": "keys"})
    assert http.post(f"{KEKS}/k/deks/short", body)["subject"] == "keys"


def test_keys_are_limited_in_number() -> None:
    registry = InMemoryRegistry({"dek.registry.max.keys": "2"})
    http = RegistryHttp(registry_application(registry))
    for name in ("a", "b"):
        http.post(KEKS, kek(name))
        http.post(f"{KEKS}/a/deks/{name}", {"encryptedKeyMaterial": WRAPPED})
    too_many = (40972, "A maximum of 2 keys already exist")
    assert told(http, "POST", "", kek("c")) == too_many
    assert told(http, "POST", "/a/deks/c", {"encryptedKeyMaterial": WRAPPED}) == too_many
    done(http, "DELETE", "/b")
    assert "deleted" not in http.post(KEKS, kek("b")), "a deleted one counts, so it may come back"


def test_without_a_secret_nothing_is_shared() -> None:
    http = RegistryHttp(registry_application(InMemoryRegistry()))
    http.post(KEKS, kek(shared=True))
    code, message = told(http, "POST", "/k/deks/s", {})
    assert code == 50070 and "LOCAL_SECRET" in message
