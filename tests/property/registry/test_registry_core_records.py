"""The registry's topic may hold any records: none of them breaks the image or a query."""

from __future__ import annotations

import contextlib
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.registry.core import records
from ottla.registry.core.image import Deleted
from ottla.registry.core.reading import LATEST, SchemaRequest
from ottla.registry.core.records import schema_record
from ottla.schemas.model import Metadata, Reference, Rule, RuleSet, Schema, SchemaType
from ottla.web.errors import ApiError
from support.registry.registry_core import InMemoryRegistry

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=6,
)
SUBJECT = st.one_of(st.sampled_from(["a", "b", ":.c:a", ":.c:", ":.", ":", ""]), JSON)
KEYTYPES = ["SCHEMA", "CONFIG", "MODE", "CONTEXT", "DELETE_SUBJECT", "CLEAR_SUBJECT", "NOOP"]
VERSION = st.one_of(st.integers(-1, 3), JSON)
REFERENCE = st.fixed_dictionaries({}, optional={"name": JSON, "subject": SUBJECT, "version": VERSION})
KEYS = st.fixed_dictionaries(
    {"keytype": st.sampled_from(KEYTYPES)},
    optional={
        "subject": SUBJECT,
        "version": VERSION,
        "magic": JSON,
        "tenant": st.one_of(st.sampled_from(["default", "ottla-highest-id"]), JSON),
        "context": st.one_of(st.sampled_from([".", ".c", "7"]), JSON),
    },
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "subject": SUBJECT,
        "version": VERSION,
        "id": st.one_of(st.integers(0, 4), JSON),
        "schema": st.one_of(st.sampled_from(['"string"', '{"type":"array","items":"A"}', "{"]), JSON),
        "schemaType": st.one_of(st.sampled_from(["AVRO", "JSON", "PROTOBUF"]), JSON),
        "references": st.one_of(st.lists(REFERENCE, max_size=2), JSON),
        "metadata": JSON,
        "ruleSet": JSON,
        "deleted": st.one_of(st.booleans(), JSON),
        "compatibilityLevel": st.one_of(st.just("FULL"), JSON),
        "alias": st.one_of(st.sampled_from(["a", "b"]), JSON),
        "mode": st.one_of(st.just("IMPORT"), JSON),
        "context": st.one_of(st.just("9"), JSON),
    },
)


def encoded(content: Any) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)


RECORDS = st.lists(
    st.tuples(
        st.one_of(KEYS.map(encoded), st.binary(max_size=8)),
        st.one_of(st.none(), VALUES.map(encoded), st.binary(max_size=8)),
    ),
    max_size=12,
)


@given(RECORDS)
@settings(max_examples=120, deadline=None)
def test_queries_have_answers_with_any_records_in_the_topic(topic: list[tuple[bytes, bytes | None]]) -> None:
    registry = InMemoryRegistry()
    for key, value in topic:
        registry.image.replay(key, value, 0)
    reads, writes = registry.reads, registry.writes
    request = SchemaRequest(Schema(SchemaType.AVRO, '"string"'))
    for subject in [*registry.image.subjects(), "a", ":.c:"]:
        for ask in (
            lambda: reads.versions(subject, Deleted.SHOW),  # noqa: B023
            lambda: reads.formatted(reads.version(subject, LATEST, True), "resolved", "qualified"),  # noqa: B023
            lambda: reads.referenced_by(subject, LATEST),  # noqa: B023
            lambda: reads.lookup(subject, request, True, True),  # noqa: B023
            lambda: reads.incompatibilities(subject, None, request),  # noqa: B023
            lambda: reads.config(subject, True),  # noqa: B023
            lambda: reads.mode(subject),  # noqa: B023
            lambda: reads.by_id(1, subject),  # noqa: B023
            lambda: writes.register(subject, request),  # noqa: B023
            lambda: writes.delete_subject(subject),  # noqa: B023
            lambda: writes.delete_subject(subject, permanent=True),  # noqa: B023
        ):
            with contextlib.suppress(ApiError):
                ask()
    for stored, _ in reads.schemas(":*:", aliases=True, deleted=True):
        assert reads.by_guid(stored.schema.guid).schema.as_json() == stored.schema.as_json()
        assert stored in reads.uses_of_id(stored.id, stored.subject, deleted=True)


NAMES = st.text(max_size=5)
TEXT_MAPS = st.dictionaries(NAMES, NAMES, max_size=3)
RULES = st.builds(
    Rule,
    NAMES,
    *(st.none() | NAMES for _ in range(4)),
    st.none() | st.lists(NAMES, unique=True, max_size=2).map(tuple),
    st.none() | TEXT_MAPS,
    *(st.none() | NAMES for _ in range(3)),
    st.booleans(),
)
SCHEMAS = st.builds(
    Schema,
    st.sampled_from(list(SchemaType)),
    st.text(),
    st.lists(st.builds(Reference, NAMES, NAMES, st.just(LATEST) | st.integers(1, 2**31 - 1)), max_size=2).map(
        tuple
    ),
    st.none()
    | st.builds(
        Metadata,
        st.none() | st.dictionaries(NAMES, st.lists(NAMES, unique=True, max_size=2).map(tuple), max_size=2),
        st.none() | TEXT_MAPS,
        st.none() | st.lists(NAMES, unique=True, max_size=2).map(tuple),
    ),
    st.none()
    | st.builds(
        RuleSet, *(st.none() | st.lists(RULES, max_size=2).map(tuple) for _ in range(3)), st.none() | NAMES
    ),
)


@given(SCHEMAS, st.integers(1, records.MAX_ID), st.booleans())
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back(schema: Schema, schema_id: int, deleted: bool) -> None:
    record = schema_record("s", 3, schema_id, schema, deleted)
    assert record.value is not None
    assert records.read_key(record.key) == records.SchemaKey("s", 3)
    read = records.read_schema(record.value)
    assert (read.id, read.deleted, read.schema.as_json()) == (schema_id, deleted, schema.as_json())
    assert read.schema.digest() == schema.digest()
