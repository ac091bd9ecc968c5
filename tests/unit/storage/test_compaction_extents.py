"""The positions of the records that survive a cleaning, in batches of equal and of different records."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ottla.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    NewRecord,
    encode_batch,
    parse_batch_header,
    record_frames,
)
from ottla.storage.compaction import cleaning
from ottla.storage.compaction.record_scan import size_of_alike
from support.storage.logs import NOW_MS

SEED = 20_261_123


def equal(draw: random.Random, number: int) -> bytes:
    return draw.randbytes(90)


def different(draw: random.Random, number: int) -> bytes:
    return draw.randbytes(draw.randrange(300))


def equal_at_first(draw: random.Random, number: int) -> bytes:
    return draw.randbytes(20 if number < 64 else draw.choice((20, 21)))


def one_that_differs(draw: random.Random, number: int) -> bytes:
    return draw.randbytes(5 if number == 70 else 6)


@pytest.mark.parametrize("value_of", [equal, different, equal_at_first, one_that_differs])
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 140, 1_100, 8_200])
def test_the_records_that_survive_are_found_where_they_are(
    count: int, value_of: Callable[[random.Random, int], bytes]
) -> None:
    draw = random.Random(SEED + count)
    records = [
        NewRecord(
            b"%06d" % draw.randrange(99),
            value_of(draw, number),
            NOW_MS + draw.randrange(20) * draw.choice((0, 9)),
        )
        for number in range(count)
    ]
    batch = encode_batch(records, base_offset=4_000)
    header = parse_batch_header(batch)
    # given the starts, ends and timestamps of all records, as the decoder of batches finds them
    payload = batch[BATCH_HEADER_BYTES:]
    ends = [end + BATCH_HEADER_BYTES for _, end, _, _ in record_frames(payload, header)]
    starts = [BATCH_HEADER_BYTES, *ends[:-1]]
    for _ in range(20):
        survivors = sorted(draw.sample(range(count), draw.randint(1, count)))
        kept = cleaning._Kept()
        # when other bytes follow the batch in the buffer
        behind = draw.choice((b"", batch))
        offsets = [4_000 + number for number in survivors]
        cleaning._extents_of(batch + behind, BATCH_HEADER_BYTES, len(batch), offsets, header, kept)
        # then
        assert kept.extents == [(starts[number], ends[number]) for number in survivors]
        assert kept.max_timestamp == max(records[number].timestamp for number in survivors)


def test_records_that_would_reach_behind_the_batch_are_not_alike() -> None:
    record = bytes((20, *range(10)))
    assert size_of_alike(record * 3, 0, 33, 3) == 11
    assert size_of_alike(record * 4, 0, 33, 4) is None
