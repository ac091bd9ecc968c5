"""Apache Kafka's own DumpLogSegments reads our batches, in every codec and of every kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.protocol.batch_rewriting import rebuild_batch
from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import (
    NewRecord,
    TimestampType,
    decode_records,
    encode_batch,
    encode_end_transaction_marker,
    parse_batch_header,
)
from support.java.java_tools import run_java

pytestmark = pytest.mark.java


def test_java_reads_every_batch(tmp_path: Path) -> None:
    # given a segment with 200 records in each codec, larger than one block of any of them
    records = [
        NewRecord(
            b"key-%d" % number, (b"value-%d " % number) * 80, 1_700_000_000_000 + number, (("h", b"x"),)
        )
        for number in range(200)
    ]
    segment = bytearray()
    offset = 0
    for codec in Codec:
        segment += encode_batch(records, base_offset=offset, leader_epoch=3, codec=codec)
        offset += len(records)
    compacted = parse_batch_header(encode_batch(records, base_offset=offset))
    kept = decode_records(encode_batch(records, base_offset=offset))[100:102]
    segment += rebuild_batch(compacted, kept, codec=Codec.LZ4, delete_horizon_ms=1_800_000_000_000)
    offset += len(records)
    segment += encode_batch(
        records[:2],
        base_offset=offset,
        producer_id=44,
        producer_epoch=1,
        base_sequence=2**31 - 1,
        transactional=True,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    segment += encode_end_transaction_marker(
        committed=True,
        coordinator_epoch=7,
        producer_id=44,
        producer_epoch=1,
        timestamp=1_700_000_000_000,
        base_offset=offset + 2,
    )
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(segment)
    # when
    dump = run_java(
        "org.apache.kafka.tools.DumpLogSegments", "--files", str(path), "--print-data-log", "--deep-iteration"
    )
    # then
    assert dump.returncode == 0, dump.stderr
    batches = [line for line in dump.stdout.splitlines() if line.startswith("baseOffset")]
    assert len(batches) == len(Codec) + 3
    assert all("isvalid: true" in line for line in batches)
    codecs = [re.search(r"compresscodec: (\w+)", line)[1] for line in batches[: len(Codec)]]
    assert codecs == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert "deleteHorizonMs: OptionalLong[1800000000000]" in batches[-3]
    assert "baseSequence: 2147483647 lastSequence: 0" in batches[-2]
    assert "isControl: true" in batches[-1]
    payloads = re.findall(r"payload: (.+)", dump.stdout)
    expected = [record.value.decode() for record in records] * len(Codec)
    expected += [record.value.decode() for record in kept]
    expected += [record.value.decode() for record in records[:2]]
    assert payloads == expected
    assert "endTxnMarker: COMMIT coordinatorEpoch: 7" in dump.stdout
