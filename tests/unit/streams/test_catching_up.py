"""An application that is to catch up only: each query ends before those that read its output begin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline.query.query_spec import QuerySpec
from ottla.streams import Streams, StreamsSettings, tumbling
from ottla.streams.plan.planner import PlannedQuery, plan
from ottla.streams.run import markers
from ottla.streams.run.markers import topics_written, wait_for_markers
from ottla.streams.run.query_starter import QueryStarter

OUTPUT_END = 3


@dataclass
class Cluster:
    """A cluster whose last transaction has committed: its marker is there when the ends are asked again."""

    looks: int = 3

    def partitions(self, topic: str) -> list[int]:
        return [0, 1]

    def ends_of(
        self, partitions: Iterable[tuple[str, int]], *, committed: bool = True
    ) -> dict[tuple[str, int], int]:
        self.looks -= committed and any(topic.endswith("-changelog") for topic, _ in partitions)
        return dict.fromkeys(partitions, 0 if committed and self.looks else OUTPUT_END)


class Admitted(Exception):
    """A query is about to start."""


def readers(app: Streams) -> list[PlannedQuery]:
    """The stateless query, and the one with state, that read a windowed table of the application's."""
    counted = app.stream("a", key=str).group_by_key().windowed_by(tumbling(timedelta(minutes=1)))
    table = counted.count(name="counted").materialize("counted")
    rows = table.to_stream(key=lambda row: row.key.key)
    rows.to("minutes", name="stateless", key=str, value=int)
    rows.group_by_key().count().to("rows", name="stateful", key=str, value=int)
    return [each for each in plan(app.topology()).queries if each.topics_read == ["app-counted-changelog"]]


@pytest.mark.parametrize("number", [0, 1])
def test_a_query_begins_when_all_that_ended_queries_wrote_for_it_is_visible(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markers, "LOOK_SECONDS", 0)
    query = readers(Streams("app"))[number]
    assert (query.stateful is not None) == (number == 1)
    cluster = Cluster()

    def admit(spec: QuerySpec) -> None:
        assert cluster.looks == 0
        raise Admitted

    context: Any = SimpleNamespace(
        name="app",
        settings=StreamsSettings(state=tmp_path, until_caught_up=True),
        session=SimpleNamespace(is_connect=False, checkpoint_of=lambda name: str(tmp_path / name)),
        spark=SimpleNamespace(version="4.1.1"),
        cluster=cluster,
        runner=SimpleNamespace(admit=admit),
    )
    watchers: Any = None

    with pytest.raises(Admitted):
        QueryStarter(context, watchers, None).start(query, [], {})


def test_the_topics_that_a_run_writes_can_be_read_to_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers, "LOOK_SECONDS", 0)
    app = Streams("app")
    records = app.stream("a", key=str, value=str)
    records.to("b", name="b")
    records.group_by_key().count(name="counted").materialize("counted")
    written = topics_written(plan(app.topology()))
    assert written == ["app-counted-changelog", "b"]
    cluster: Any = Cluster()
    wait_for_markers(written, cluster)
    assert cluster.looks == 0


def test_a_transaction_of_others_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(markers, "LOOK_SECONDS", 0)
    monkeypatch.setattr(markers, "MARKERS_SECONDS", 0.01)
    cluster: Any = Cluster(looks=-1)
    wait_for_markers(["app-counted-changelog"], cluster)
    assert "transactions that do not end in app-counted-changelog" in caplog.text
