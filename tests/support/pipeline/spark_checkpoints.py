"""Checkpoint directories as Spark leaves them, written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_checkpoint(
    directory: Path, query_id: str, offsets: Mapping[int, str], commits: Sequence[int]
) -> Path:
    """`offsets`: the one source's JSON of each planned batch. Returns the directory."""
    for name in ("offsets", "commits"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "metadata").write_text(json.dumps({"id": query_id}))
    conf = '{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"2"}}'
    for batch_id, line in offsets.items():
        (directory / "offsets" / str(batch_id)).write_text(f"v1\n{conf}\n{line}")
        (directory / "offsets" / f".{batch_id}.crc").touch()
    for batch_id in commits:
        (directory / "commits" / str(batch_id)).write_text("v1\n{}")
    return directory
