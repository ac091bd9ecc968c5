"""A source and its mirror, compared batch by batch; and the words of `ottla link` for tests."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.record_batch import iterate_headers, parse_batch_header
from support.clients.ottla_command import done
from support.clients.wire import WireClient

TIMEOUT_S = 60.0
LAST_VERSION_WITH_NAMES = 12
FETCH_BYTES = 4 << 20


def batches_of(
    bootstrap: str, topic: str, partition: int, start: int = 0, end: int | None = None
) -> list[bytes]:
    """The batches of a partition as they are stored, read uncommitted, from `start` up to `end`."""
    found: list[bytes] = []
    with WireClient.connect(bootstrap) as wire:
        offset = start
        while True:
            request = FetchRequest(
                replica_id=-1,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=FETCH_BYTES,
                isolation_level=0,
                session_epoch=-1,
                topics=[
                    FetchTopic(
                        topic=topic,
                        partitions=[
                            FetchPartition(
                                partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
                            )
                        ],
                    )
                ],
            )
            (answer,) = wire.call(request, LAST_VERSION_WITH_NAMES).responses[0].partitions
            assert answer.error_code == 0, (topic, partition, offset, answer.error_code)
            before = offset
            records = bytes(answer.records or b"")
            for position, header in iterate_headers(records):
                if end is not None and header.base_offset >= end:
                    return found
                if header.next_offset > offset:
                    found.append(records[position : position + header.size_bytes])
                    offset = header.next_offset
            if offset == before:
                return found


def assert_same_batches(
    source: str, mirror: str, topic: str, partitions: Sequence[int], **bounds: Any
) -> int:
    """Both sides have the same bytes; how many batches there are."""
    count = 0
    for index in partitions:
        ours, theirs = (batches_of(each, topic, index, **bounds) for each in (mirror, source))
        assert len(ours) == len(theirs), (topic, index, len(ours), len(theirs))
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert one == other, (topic, index, place)
        count += len(ours)
    return count


def ends_of(bootstrap: str, topic: str, partitions: int) -> dict[tuple[str, int], int]:
    """The end of each partition's log, by the last batch that is stored; 0 if there is none."""
    ends = {}
    for index in range(partitions):
        batches = batches_of(bootstrap, topic, index)
        ends[topic, index] = parse_batch_header(batches[-1]).next_offset if batches else 0
    return ends


def describe(bootstrap: str, link: str) -> Mapping[str, Any]:
    """`ottla link describe`."""
    (found,) = done(bootstrap, "link", "describe", link)
    return dict(found)


def partitions_of(bootstrap: str, link: str) -> dict[tuple[str, int], Mapping[str, Any]]:
    """What the link tells of each partition."""
    return {
        (topic["topic"], each["partition"]): each
        for topic in describe(bootstrap, link)["topics"]
        for each in topic["partitions"]
    }


def wait_until_copied(
    bootstrap: str, link: str, ends: Mapping[tuple[str, int], int], timeout_s: float = TIMEOUT_S
) -> None:
    """Wait until the link tells that its partitions have reached these offsets, with nothing left to copy."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = partitions_of(bootstrap, link)
        if all(
            key in found and (found[key]["end_offset"] or 0) >= end and found[key]["lag"] == 0
            for key, end in ends.items()
        ):
            return
        assert time.monotonic() < deadline, (ends, found, describe(bootstrap, link))
        time.sleep(0.1)


def wait_for(condition: Any, described: str, timeout_s: float = TIMEOUT_S) -> Any:
    """The first true value of `condition`; fails after the timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {described}"
        time.sleep(0.05)
