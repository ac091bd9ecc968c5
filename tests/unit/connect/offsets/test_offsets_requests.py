"""Bodies of PATCH /connectors/C/offsets: what is taken, and Connect's words for what is not."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connect.offsets.connector_offsets import BadOffsets, ConnectorOffset, parse_offsets
from ottla.connect.offsets.sink_offsets import parse_sink_offsets


def test_a_body_is_a_list_of_partitions_and_offsets() -> None:
    body = {"offsets": [{"partition": {"a": 1}, "offset": {"b": 2}}, {"partition": {"a": 2}, "offset": None}]}
    assert parse_offsets(body) == [ConnectorOffset({"a": 1}, {"b": 2}), ConnectorOffset({"a": 2}, None)]


@pytest.mark.parametrize("body", [None, [], {}, {"offsets": []}, {"offsets": None}, {"offsets": {}}])
def test_a_body_without_offsets_is_refused(body: Any) -> None:
    with pytest.raises(BadOffsets, match="need to be provided for an alter offsets request"):
        parse_offsets(body)


@pytest.mark.parametrize("each", [1, {"partition": 1}, {"partition": {}, "offset": 5}])
def test_offsets_of_another_form_are_refused(each: Any) -> None:
    with pytest.raises(BadOffsets):
        parse_offsets({"offsets": [each]})


def test_numbers_may_be_texts() -> None:
    given = [
        ConnectorOffset({"kafka_topic": "t", "kafka_partition": "10"}, {"kafka_offset": 1000}),
        ConnectorOffset({"kafka_topic": "t", "kafka_partition": 2}, {"kafka_offset": "7"}),
        ConnectorOffset({"kafka_topic": "u", "kafka_partition": 0}, None),
    ]
    assert parse_sink_offsets(given) == {("t", 10): 1000, ("t", 2): 7, ("u", 0): None}


@pytest.mark.parametrize(
    ("partition", "offset", "words"),
    [
        (None, None, "The partition for a sink connector offset cannot be null or missing"),
        ({"kafka_topic": "t"}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        ({"kafka_topic": None, "kafka_partition": 1}, None, "Kafka topic names must be valid strings"),
        ({"kafka_topic": "t", "kafka_partition": None}, None, "Kafka partitions must be valid numbers"),
        ({"kafka_topic": "t", "kafka_partition": "x"}, None, "Kafka partition value .*'x'. Partition values"),
        ({"kafka_topic": "t", "kafka_partition": 1.5}, None, "'1.5'. Partition values"),
        ({"kafka_topic": "t", "kafka_partition": 2**31}, None, "Partition values"),
        ({"kafka_topic": "t", "kafka_partition": True}, None, "'true'. Partition values"),
        ({"kafka_topic": "t", "kafka_partition": 1}, {}, "either be null or contain the key 'kafka_offset'"),
        ({"kafka_topic": "t", "kafka_partition": 1}, {"kafka_offset": None}, "'null'. Offset values"),
        ({"kafka_topic": "t", "kafka_partition": 1}, {"kafka_offset": 2**63}, "Offset values"),
    ],
)
def test_sink_offsets_that_make_no_sense_are_refused(partition: Any, offset: Any, words: str) -> None:
    with pytest.raises(BadOffsets, match=words):
        parse_sink_offsets([ConnectorOffset(partition, offset)])
