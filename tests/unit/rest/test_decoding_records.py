"""Records to JSON without schemas, and what happens to those that do not fit."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ottla.client.registry.wire import RegistryRefusal, RegistryUnreachable
from ottla.rest.consumers.consumer_settings import DataFormat
from ottla.rest.consumers.decoding import Decoded, RecordDecoder, SchemaDecoders
from ottla.schemas import framing
from ottla.web.errors import ApiError
from support.rest.rest_consumers import FakeRecord, in_line


class NoSchemas:
    """A registry that has no schema, or can't be reached."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem
        self.asked: list[int] = []

    async def by_id(self, schema_id: int) -> Any:
        self.asked.append(schema_id)
        raise self.problem


NOT_FOUND = RegistryRefusal(404, 40403, "Schema 7 not found")


def decode(data_format: DataFormat, *records: FakeRecord, registry: Any = None) -> Decoded:
    decoder = RecordDecoder(data_format, SchemaDecoders(registry or NoSchemas(NOT_FOUND)))
    return asyncio.run(decoder.decode(list(records), in_line))  # type: ignore[arg-type]


def test_binary_is_base64_and_null_stays_null() -> None:
    decoded = decode(
        DataFormat.BINARY, FakeRecord("t", 3, 17, b"\xff\x00\xfe", None), FakeRecord(value_bytes=b"")
    )
    assert decoded.parts == [
        b'{"topic":"t","key":"/wD+","value":null,"partition":3,"offset":17}',
        b'{"topic":"t","key":null,"value":"","partition":0,"offset":0}',
    ]
    assert decoded.problem is None


@pytest.mark.parametrize(
    "text",
    [
        b'{"b":1,"a":[true,null]}',
        b"123456789012345678901234567890",
        b"0.1000000000000000055511151231257827",
        b'{"twice":1,"twice":2}',
        b' "spaces" ',
        '"ü🦦"'.encode(),
        b"null",
    ],
)
def test_json_is_passed_on_as_it_was_written(text: bytes) -> None:
    decoded = decode(DataFormat.JSON, FakeRecord(key_bytes=text, value_bytes=text))
    assert decoded.parts == [
        b'{"topic":"t","key":' + text + b',"value":' + text + b',"partition":0,"offset":0}'
    ]
    assert json.loads(decoded.parts[0])["value"] == json.loads(text)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"NaN", b"{} {}", b"\xff", b"[" * 5_000, b'"\xed\xa0\x80"', b"\0"]
)
def test_what_is_no_json_ends_its_partition_and_says_where(text: bytes) -> None:
    decoded = decode(DataFormat.JSON, FakeRecord("t", 1, 4, value_bytes=b"1"), FakeRecord("t", 1, 5, text))
    assert [record.at for record in decoded.answered] == [4]
    assert decoded.problem is not None
    assert (decoded.problem.topic, decoded.problem.partition, decoded.problem.offset) == ("t", 1, 5)
    assert decoded.problem.reason


def test_other_partitions_go_on_past_a_record_that_does_not_fit() -> None:
    decoded = decode(
        DataFormat.JSON,
        FakeRecord("t", 0, 0, value_bytes=b"1"),
        FakeRecord("t", 0, 1, value_bytes=b"?"),
        FakeRecord("t", 1, 0, value_bytes=b"2"),
        FakeRecord("t", 0, 2, value_bytes=b"3"),
        FakeRecord("t", 1, 1, value_bytes=b"!"),
    )
    assert [(record.partition_number, record.at) for record in decoded.answered] == [(0, 0), (1, 0)]
    assert decoded.problem is not None and decoded.problem.offset == 1 and decoded.problem.partition == 0


def test_json_schema_is_json_behind_its_schemas_id_which_nobody_asks_for() -> None:
    registry = NoSchemas(NOT_FOUND)
    record = FakeRecord(key_bytes=None, value_bytes=framing.frame(7, b'{"a": 1}'))
    decoded = decode(DataFormat.JSON_SCHEMA, record, registry=registry)
    assert json.loads(decoded.parts[0])["value"] == {"a": 1}
    assert registry.asked == []


@pytest.mark.parametrize("payload", [b"", b"\0\0\0\0", b"{}  {}", b"\1\0\0\0\7{}", framing.frame(7, b"{")])
@pytest.mark.parametrize("data_format", [DataFormat.JSON_SCHEMA, DataFormat.AVRO, DataFormat.PROTOBUF])
def test_a_payload_without_its_frame_or_its_data_does_not_fit(
    data_format: DataFormat, payload: bytes
) -> None:
    decoded = decode(data_format, FakeRecord(value_bytes=payload))
    assert decoded.parts == [] and decoded.problem is not None


def test_each_unknown_schema_is_asked_for_once_a_read() -> None:
    registry = NoSchemas(NOT_FOUND)
    records = [FakeRecord("t", n, 0, value_bytes=framing.frame(7, b"")) for n in range(5)]
    decoded = decode(DataFormat.AVRO, *records, registry=registry)
    assert registry.asked == [7]
    assert decoded.problem is not None and "no schema 7" in decoded.problem.reason


@pytest.mark.parametrize("problem", [RegistryUnreachable("nobody"), RegistryRefusal(500, 50001, "broken")])
def test_without_a_registry_the_read_fails_and_nothing_is_called_undecodable(problem: Exception) -> None:
    with pytest.raises(ApiError) as refused:
        decode(DataFormat.AVRO, FakeRecord(value_bytes=framing.frame(7, b"")), registry=NoSchemas(problem))
    assert (refused.value.status, refused.value.error_code) == (408, 40801)
