"""Where a query's sources go on, by its checkpoint."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.pipeline.query.by_time import Place
from ottla.pipeline.query.checkpoints import Checkpoint
from ottla.streams.run.reading_order import QueryReading

ROWS = {"rows": {"0": 3, "1": 4}}
RECORDS = {"records": {"0": 7}}
HEARTBEATS = {"beats": {"0": 1}}


def a_query(checkpoint: Path | None, *topics: str) -> QueryReading:
    return QueryReading(
        "join",
        [],
        True,
        None,
        True,
        None if checkpoint is None else Checkpoint(checkpoint),
        [(topic,) for topic in topics],
        cast(Any, None),
        threading.Condition(),
    )


def planned(directory: Path, batch: int, sources: Sequence[Mapping[str, object]]) -> None:
    (directory / "offsets").mkdir(exist_ok=True)
    lines = ["v1", "{}", *map(json.dumps, sources)]
    (directory / "offsets" / str(batch)).write_text("\n".join(lines))


def test_sources_go_on_where_the_last_planned_batch_ends(tmp_path: Path) -> None:
    planned(tmp_path, 8, [{"rows": {"0": 0, "1": 0}}, {"records": {"0": 0}}])
    planned(tmp_path, 9, [HEARTBEATS, RECORDS, HEARTBEATS, ROWS])

    starts = a_query(tmp_path, "rows", "records").starts()

    assert starts == [
        {Place("rows", 0): 3, Place("rows", 1): 4},
        {Place("records", 0): 7},
    ]


@pytest.mark.parametrize(
    "sources",
    [
        [ROWS],  # of the records nothing is known
        [ROWS, RECORDS, {"records": {"0": 8}}],  # two sources read the records, and differ
    ],
)
def test_only_spark_can_tell_where_other_sources_go_on(
    tmp_path: Path, sources: Sequence[Mapping[str, object]]
) -> None:
    planned(tmp_path, 0, sources)

    assert a_query(tmp_path, "rows", "records").starts() is None


def test_a_checkpoint_elsewhere_tells_nothing(tmp_path: Path) -> None:
    assert a_query(None, "rows").starts() is None
    assert a_query(tmp_path, "rows").starts() is None
