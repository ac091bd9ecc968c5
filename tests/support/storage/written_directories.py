"""Data directories with every kind of file that Kafka keeps, for tests of what reads them."""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path

from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import (
    ControlRecordType,
    NewRecord,
    encode_batch,
    encode_control_batch,
    encode_end_transaction_marker,
    parse_batch_header,
)
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.framing import (
    encode_coordinator_key,
    encode_coordinator_value,
    encode_metadata_record,
)
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.offset_commit_value import OffsetCommitValue
from ottla.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from ottla.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from ottla.protocol.records.topic_record import TopicRecord
from ottla.storage import checkpoints
from ottla.storage.log import Log, LogConfig
from ottla.storage.log_directory import MetaProperties, write_meta_properties
from support.storage.logs import NOW_MS, append

CONFIG = LogConfig(segment_bytes=8_000, index_interval_bytes=300)
LAST_EPOCH = 3


def write_partition(directory: Path, seed: int = 0, batches: int = 120) -> Log:
    """A closed log: every codec, several segments, idempotent batches, an aborted and an open transaction."""
    draw = random.Random(seed)
    log = Log.open(directory, CONFIG, now_ms=NOW_MS)
    sequence = 0
    for number in range(batches):
        count = draw.randrange(1, 5)
        idempotent = draw.random() < 0.5
        append(
            log,
            *(b"value %d.%d " % (number, index) + b"." * draw.randrange(200) for index in range(count)),
            timestamps=[NOW_MS + 10 * number + draw.randrange(20) for _ in range(count)],
            codec=draw.choice(list(Codec)),
            leader_epoch=number * LAST_EPOCH // batches,
            **({"producer_id": 4711, "producer_epoch": 2, "base_sequence": sequence} if idempotent else {}),
        )
        sequence += count if idempotent else 0
    options = {"leader_epoch": LAST_EPOCH, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    append(log, b"aborted", producer_id=4712, **options)
    marker = encode_end_transaction_marker(
        committed=False,
        coordinator_epoch=1,
        producer_id=4712,
        producer_epoch=0,
        timestamp=NOW_MS,
        base_offset=log.log_end_offset,
        leader_epoch=LAST_EPOCH,
    )
    log.append(marker, [parse_batch_header(marker)], now_ms=NOW_MS)
    append(log, b"open", producer_id=4713, **options)
    log.close()
    checkpoints.write_partition_metadata(directory, uuid.UUID(int=draw.getrandbits(128) | 1))
    return log


def write_offsets_partition(directory: Path) -> None:
    """A partition of __consumer_offsets with a commit and its tombstone."""
    key = encode_coordinator_key(OffsetCommitKey(group="g", topic="t", partition=3))
    value = encode_coordinator_value(OffsetCommitValue(offset=42, metadata="m", commit_timestamp=NOW_MS), 3)
    log = Log.open(directory, CONFIG, now_ms=NOW_MS)
    for content in (value, None):
        batch = encode_batch(
            [NewRecord(key, content, NOW_MS)], base_offset=log.log_end_offset, leader_epoch=0
        )
        log.append(batch, [parse_batch_header(batch)], now_ms=NOW_MS)
    log.close()


def write_snapshot(path: Path) -> None:
    """A metadata snapshot: header, records, footer."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=NOW_MS).encode(0)
    footer = SnapshotFooterRecord(version=0).encode(0)
    records = [
        (FeatureLevelRecord(name="metadata.version", feature_level=30), 0),
        (TopicRecord(name="t", topic_id=uuid.UUID(int=7)), 0),
    ]
    values = [NewRecord(None, encode_metadata_record(record, version), NOW_MS) for record, version in records]
    path.write_bytes(
        encode_control_batch([(ControlRecordType.SNAPSHOT_HEADER, header)], timestamp=NOW_MS, leader_epoch=1)
        + encode_batch(values, base_offset=1, leader_epoch=1)
        + encode_control_batch(
            [(ControlRecordType.SNAPSHOT_FOOTER, footer)], timestamp=NOW_MS, base_offset=3, leader_epoch=1
        )
    )


def write_data_directory(directory: Path, seed: int = 0) -> dict[str, int]:
    """A data directory with all of the above; the end offset of each log."""
    directory.mkdir(parents=True, exist_ok=True)
    log = write_partition(directory / "t-0", seed)
    write_offsets_partition(directory / "__consumer_offsets-7")
    metadata = directory / "__cluster_metadata-0"
    metadata.mkdir()
    write_snapshot(metadata / "00000000000000000005-0000000001.checkpoint")
    write_snapshot(directory / "bootstrap.checkpoint")
    state = {"leaderId": 1, "leaderEpoch": 4, "votedId": 1, "data_version": 1}
    (metadata / "quorum-state").write_text(json.dumps(state))
    write_meta_properties(directory, MetaProperties("cluster", 1, uuid.UUID(int=(1 << 100) + seed)))
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    ends = {("t", 0): log.log_end_offset, ("__consumer_offsets", 7): 2}
    for name in (
        checkpoints.RECOVERY_POINT_CHECKPOINT,
        checkpoints.REPLICATION_OFFSET_CHECKPOINT,
        checkpoints.LOG_START_OFFSET_CHECKPOINT,
        checkpoints.CLEANER_OFFSET_CHECKPOINT,
    ):
        checkpoints.write_offsets(directory / name, ends)
    return {f"{topic}-{partition}": end for (topic, partition), end in ends.items()}
