"""The records of `_schemas`, byte for byte, and how those of other registries are read."""

from __future__ import annotations

import hashlib
import json
import logging
import uuid

import orjson
import pytest

from ottla.registry.core import records
from ottla.registry.core.configuration import Config
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.records import Mode
from ottla.replicated.records import Record
from ottla.schemas.model import (
    CompatibilityLevel,
    Metadata,
    Reference,
    Rule,
    RuleSet,
    Schema,
    SchemaType,
)

AVRO = Schema(SchemaType.AVRO, '"string"')
FULL = Schema(
    SchemaType.PROTOBUF,
    'syntax = "proto3";\n',
    (Reference("a.proto", "a-value", 3),),
    Metadata({"R.a": ("PII",)}, {"owner": "we", "b": "2"}, ("b", "a")),
    RuleSet(domain_rules=(Rule("r", kind="CONDITION", mode="WRITE", type="CEL", expr="1 < 2"),)),
)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (records.noop(), '{"keytype":"NOOP","magic":0}', None),
        (
            records.schema_record("s", 1, 7, AVRO, False),
            '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            '{"subject":"s","version":1,"id":7,"schemaType":"AVRO","schema":"\\"string\\"","deleted":false}',
        ),
        (
            records.schema_record(":.c:s", 2, 8, FULL, True),
            '{"keytype":"SCHEMA","subject":":.c:s","version":2,"magic":1}',
            '{"subject":":.c:s","version":2,"id":8,"schemaType":"PROTOBUF",'
            '"references":[{"name":"a.proto","subject":"a-value","version":3}],'
            '"metadata":{"tags":{"R.a":["PII"]},"properties":{"b":"2","owner":"we"},"sensitive":["a","b"]},'
            '"ruleSet":{"domainRules":[{"name":"r","kind":"CONDITION","mode":"WRITE","type":"CEL",'
            '"expr":"1 < 2","disabled":false}]},'
            '"schema":"syntax = \\"proto3\\";\\n","deleted":true}',
        ),
        (
            records.config_record(None, Config(compatibility_level=CompatibilityLevel.FULL)),
            '{"keytype":"CONFIG","magic":0}',
            '{"compatibilityLevel":"FULL"}',
        ),
        (
            records.config_record("s", Config(alias="t", normalize=True, compatibility_group="g")),
            '{"keytype":"CONFIG","subject":"s","magic":0}',
            '{"subject":"s","alias":"t","normalize":true,"compatibilityGroup":"g"}',
        ),
        (
            records.mode_record(":.c:", Mode.IMPORT),
            '{"keytype":"MODE","subject":":.c:","magic":0}',
            '{"subject":":.c:","mode":"IMPORT"}',
        ),
        (
            records.mode_record(None, Mode.READONLY),
            '{"keytype":"MODE","magic":0}',
            '{"mode":"READONLY"}',
        ),
        (
            records.delete_subject_record("s", 4),
            '{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
            '{"subject":"s","version":4}',
        ),
        (
            records.clear_subject_record("s"),
            '{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}',
            '{"subject":"s"}',
        ),
        (
            records.context_record(".c"),
            '{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}',
            '{"tenant":"default","context":".c"}',
        ),
    ],
)
def test_the_bytes_of_a_record(record: Record, key: str, value: str | None) -> None:
    assert record == Record(key.encode(), None if value is None else value.encode())


def test_records_are_read_as_they_were_written() -> None:
    for schema in (AVRO, FULL):
        record = records.schema_record("s", 1, 7, schema, True)
        assert record.value is not None
        read = records.read_schema(record.value)
        assert (read.id, read.deleted) == (7, True)
        assert read.schema.as_json() == schema.as_json()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (
            '{"keytype":"SCHEMA","subject":"s","version":1,"magic":0}',
            '{"subject":"s","version":1,"id":1,"schema":"\\"string\\""}',
        ),
        (
            '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            '{"subject":"s","version":1,"id":1,"md5":"abc=","references":null,"metadata":null,"ruleSet":null,'
            '"schemaType":null,"schema":"\\"string\\"","deleted":false}',
        ),
        (  # Karapace's
            '{"subject": "s", "version": 1, "magic": 1, "keytype": "SCHEMA"}',
            '{"subject": "s", "version": 1, "id": 1, "schema": "\\"string\\"", "deleted": false}',
        ),
        (
            '{"keytype":"SCHEMA","subject":":.:s","version":1,"magic":1}',
            '{"subject":":.:s","version":1,"id":1,"schema":"\\"string\\"","deleted":false,"new":{"a":[1]}}',
        ),
    ],
)
def test_versions_as_other_registries_wrote_them(key: str, value: str) -> None:
    image = RegistryImage()
    image.replay(key.encode(), value.encode(), 5)
    stored = image.versions("s")[1]
    assert (stored.id, stored.schema, stored.deleted, stored.timestamp_ms) == (1, AVRO, False, 5)


@pytest.mark.parametrize(
    "key",
    [
        '{"keytype":"CONFIG","subject":null,"magic":0}',
        '{"keytype":"CONFIG","magic":0}',
        '{"magic":0,"keytype":"CONFIG"}',
        '{"keytype":"CONFIG","subject":":.:","magic":0}',
    ],
)
def test_the_global_configuration_as_other_registries_wrote_it(key: str) -> None:
    image = RegistryImage()
    image.replay(key.encode(), b'{"compatibilityLevel": "NONE"}', 0)
    assert image.config(None) == Config(compatibility_level=CompatibilityLevel.NONE)
    image.replay(b'{"keytype":"CONFIG","magic":0}', None, 0)
    assert image.config(None) is None


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("", "{}", "its key is no JSON"),
        ("[]", "{}", "its key is no JSON object"),
        ("{}", "{}", "no record has the keytype None"),
        ('{"keytype":"SCHEMA","subject":"s"}', "{}", "its version is no number"),
        ('{"keytype":"SCHEMA","subject":"s","version":0}', "{}", "its version is no number"),
        ('{"keytype":"SCHEMA","subject":"s","version":true}', "{}", "its version is no number"),
        ('{"keytype":"SCHEMA","subject":5,"version":1}', "{}", "its subject is no text"),
        ('{"keytype":"SCHEMA","subject":"s","version":1}', "", "its value is no JSON"),
        ('{"keytype":"SCHEMA","subject":"s","version":1}', '{"id":1}', "schema must be a text"),
        ('{"keytype":"SCHEMA","subject":"s","version":1}', '{"schema":"x"}', "its id is no number"),
        (
            '{"keytype":"SCHEMA","subject":"s","version":1}',
            '{"schema":"x","id":9999999999}',
            "its id is no number",
        ),
        (
            '{"keytype":"SCHEMA","subject":"s","version":1}',
            '{"schema":"x","id":1,"schemaType":"XML"}',
            "Invalid schema type XML",
        ),
        (
            '{"keytype":"SCHEMA","subject":"s","version":1}',
            '{"schema":"x","id":1,"schemaType":[]}',
            "Invalid schema type",
        ),
        (
            '{"keytype":"SCHEMA","subject":"s","version":1}',
            '{"schema":"x","id":1,"references":[{"name":"a"}]}',
            "a reference needs",
        ),
        (
            '{"keytype":"SCHEMA","subject":"s","version":1}',
            '{"schema":"x","id":1,"deleted":"yes"}',
            "neither true nor false",
        ),
        ('{"keytype":"CONFIG"}', '{"compatibilityLevel":"BEST"}', "compatibilityLevel can't be BEST"),
        ('{"keytype":"CONFIG"}', '{"normalize":"no"}', "normalize must be true or false"),
        ('{"keytype":"MODE"}', '{"mode":"BEST"}', "no mode is called BEST"),
        ('{"keytype":"DELETE_SUBJECT","subject":"s"}', "{}", "its version is no number"),
        ('{"keytype":"DELETE_SUBJECT"}', "{}", "its subject is no text"),
        ('{"keytype":"CONTEXT","tenant":"t"}', "{}", "its context is no text"),
        (
            '{"keytype":"CONTEXT","tenant":"ottla-highest-id","context":"."}',
            '{"context":"0"}',
            "no id is 0",
        ),
    ],
)
def test_a_record_that_cant_be_read_is_logged_and_left_out(
    key: str, value: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    image = RegistryImage()
    with caplog.at_level(logging.WARNING, logger="ottla.registry"):
        image.replay(key.encode(), value.encode(), 0)
        image.replay(b"\xff\xfe", value.encode(), 0)
    assert reason in caplog.records[0].getMessage()
    assert len(caplog.records) == 2
    assert image.subjects() == []
    assert image.config(None) is None and image.mode(None) is None and image.contexts() == ["."]


def test_json_that_is_nested_too_deep_is_left_out() -> None:
    image = RegistryImage()
    image.replay(b'{"keytype":"MODE"}', b"[" * 100_000, 0)
    assert image.mode(None) is None


# -- digests ------------------------------------------------------------------------------------------


def test_the_digest_of_a_text_is_its_md5() -> None:
    assert AVRO.digest() == hashlib.md5(b'"string"').digest()
    assert AVRO.guid == str(uuid.UUID(hashlib.md5(b'"string"').hexdigest()))


def test_references_metadata_and_rules_are_part_of_the_digest() -> None:
    expected = hashlib.md5(
        b'syntax = "proto3";\n'
        b"a.protoa-value\x00\x00\x00\x03"
        b"\x01R.aPIIb2ownerweab"
        b"\x01rCONDITIONWRITECEL1 < 2\x00"
    )
    assert FULL.digest() == expected.digest()


def test_a_schema_is_read_from_its_json_as_it_was() -> None:
    assert Schema.from_json(json.loads(orjson.dumps(FULL.as_json()))).as_json() == FULL.as_json()
