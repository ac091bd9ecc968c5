"""The bytes of the workers' group, compared with those that Java's workers send."""

from __future__ import annotations

import random

import pytest

from ottla.connect.core.ids import CONNECTOR, TaskId
from ottla.connect.worker.wire import (
    Assignment,
    AssignmentError,
    Metadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)

NULL_CLAIM = bytes.fromhex("0002") + b"\0\x16http://127.0.0.1:8083/" + b"\0" * 7 + b"\5" + b"\xff" * 4
"""The metadata of a Java worker without any tasks: version 2, its URL, offset 5, and no bytes."""


def test_the_metadata_of_a_java_worker_without_tasks_is_read() -> None:
    assert decode_metadata(NULL_CLAIM) == Metadata("http://127.0.0.1:8083/", 5, ())


def test_metadata_and_assignments_are_read_as_they_were_written() -> None:
    drawn = random.Random(1)
    for _ in range(300):
        ids = [
            TaskId(drawn.choice("abcäü"), drawn.randint(CONNECTOR, 40)) for _ in range(drawn.randint(0, 9))
        ]
        ids = sorted(set(ids))
        metadata = Metadata("http://h:1/", drawn.randint(-1, 2**40), ids)
        found = decode_metadata(encode_metadata(metadata))
        assert (found.url, found.offset, sorted(found.running)) == (metadata.url, metadata.offset, ids)
        assignment = Assignment(AssignmentError.NONE, "m", "http://h:1/", 7, ids, ids[:2], 300)
        read = decode_assignment(encode_assignment(assignment))
        assert sorted(read.assigned) == ids and sorted(read.revoked) == ids[:2] and read.delay_ms == 300


def test_bytes_that_are_none_are_refused() -> None:
    drawn = random.Random(2)
    whole = encode_assignment(Assignment(assigned=[TaskId("c", 1)], leader="m", leader_url="u"))
    for length in range(len(whole)):
        with pytest.raises((ValueError, UnicodeDecodeError)):
            decode_metadata(whole[:length] + bytes(drawn.randbytes(3)))
            raise ValueError("read as other metadata")
