"""The image of connect-configs, and the records that the leader decides."""

from __future__ import annotations

import pytest

from ottla.connect.core import decisions
from ottla.connect.core.config_image import ConfigImage
from ottla.connect.core.config_records import ConnectorConfig, TaskConfig, TasksCommit
from ottla.connect.core.decisions import Decided
from ottla.connect.core.errors import Refused
from ottla.connect.core.ids import CONNECTOR, TargetState, TaskId
from ottla.connect.core.planning import sink_tasks, source_tasks, split, task_class


class Log:
    """An image, and the records that it has been given."""

    def __init__(self) -> None:
        self.image = ConfigImage()

    def add(self, *records: object) -> None:
        for record in records:
            self.image.replay(record, self.image.offset + 1)  # type: ignore[arg-type]

    def do(self, decided: Decided[object]) -> object:
        self.add(*decided.records)
        return decided.answer


@pytest.fixture
def log() -> Log:
    log = Log()
    log.do(decisions.create(log.image, "c", {"a": "1"}, None))
    return log


def test_a_connector_is_made_once(log: Log) -> None:
    with pytest.raises(Refused, match="already exists") as refused:
        decisions.create(log.image, "c", {}, None)
    assert refused.value.status == 409
    assert log.do(decisions.put(log.image, "c", {"a": "2"})) is False
    assert log.do(decisions.put(log.image, "d", {})) is True


def test_tasks_count_from_their_commit_on(log: Log) -> None:
    log.add(TaskConfig("c", 0, {"x": "0"}), TaskConfig("c", 1, {"x": "1"}))
    assert log.image.task_count("c") == 0
    log.add(TasksCommit("c", 2))
    assert list(log.image.task_configs("c")) == [{"x": "0"}, {"x": "1"}]


def test_an_incomplete_set_makes_the_connector_inconsistent_until_the_next_whole_one(log: Log) -> None:
    log.add(TaskConfig("c", 1, {}), TasksCommit("c", 2))
    assert log.image.is_inconsistent("c") and log.image.task_count("c") == 0
    assert log.do(decisions.set_tasks(log.image, "c", [{"n": "0"}, {"n": "1"}])) is True
    assert not log.image.is_inconsistent("c") and log.image.task_count("c") == 2


def test_the_same_tasks_are_not_written_again(log: Log) -> None:
    assert log.do(decisions.set_tasks(log.image, "c", [{"n": "0"}])) is True
    assert decisions.set_tasks(log.image, "c", [{"n": "0"}]).records == []


def test_a_commit_of_a_connector_that_compaction_has_taken_away_is_ignored(log: Log) -> None:
    log.add(TaskConfig("gone", 0, {}), TasksCommit("gone", 1))
    assert "gone" not in log.image and log.image.task_count("gone") == 0


def test_a_stopped_connector_has_no_tasks_and_takes_none(log: Log) -> None:
    log.do(decisions.set_tasks(log.image, "c", [{"n": "0"}]))
    log.do(decisions.set_target(log.image, "c", TargetState.STOPPED))
    assert log.image.task_count("c") == 0
    with pytest.raises(Refused, match="Cannot submit non-empty set"):
        decisions.set_tasks(log.image, "c", [{"n": "0"}])
    decisions.require_stopped(log.image, "c")


def test_a_deleted_connector_leaves_nothing(log: Log) -> None:
    log.do(decisions.set_target(log.image, "c", TargetState.PAUSED))
    log.do(decisions.delete(log.image, "c"))
    assert log.image.connectors == []
    log.add(ConnectorConfig("c", {}))
    assert log.image.target("c") is TargetState.STARTED


def test_new_tasks_need_another_fencing(log: Log) -> None:
    log.do(decisions.set_tasks(log.image, "c", [{}, {}]))
    assert log.image.is_pending_fencing("c")
    first = log.image.fence("c")
    log.do(decisions.set_fenced(log.image, "c"))
    assert not log.image.is_pending_fencing("c") and log.image.fence("c") > first
    assert log.image.fenced_count("c") == 2


def test_unknown_connectors_are_refused() -> None:
    image = ConfigImage()
    for decide in (
        lambda: decisions.delete(image, "x"),
        lambda: decisions.set_target(image, "x", TargetState.PAUSED),
        lambda: decisions.set_tasks(image, "x", []),
        lambda: decisions.set_fenced(image, "x"),
        lambda: decisions.restart_task(image, TaskId("x", 0)),
        lambda: decisions.patched(image, "x", {}),
        lambda: decisions.require_stopped(image, "x"),
    ):
        with pytest.raises(Refused) as refused:
            decide()
        assert refused.value.status == 404


def test_a_patch_changes_adds_and_takes_out(log: Log) -> None:
    log.do(decisions.put(log.image, "c", {"a": "1", "b": "2"}))
    assert decisions.patched(log.image, "c", {"a": None, "b": "3", "c": "4"}) == {"b": "3", "c": "4"}


def test_source_partitions_are_spread_over_at_most_so_many_tasks() -> None:
    partitions = [{"n": number} for number in range(5)]
    tasks = source_tasks({"name": "c"}, "T", partitions, 2)
    found = [split(task) for task in tasks]
    assert [len(own) for _, own in found] == [3, 2]
    assert all(config == {"name": "c"} for config, _ in found)
    assert source_tasks({"name": "c"}, "T", partitions[::-1], 2) == tasks
    assert source_tasks({}, "T", [], 3) == []
    assert len(source_tasks({}, "T", partitions[:1], 3)) == 1


def test_sinks_have_copies_of_their_configuration() -> None:
    assert sink_tasks({"a": "b"}, "T", 2) == [{"a": "b", "task.class": "T"}] * 2
    assert task_class("org.acme.FileConnector") == "org.acme.FileTask"


def test_a_revision_grows_with_each_change_of_the_work_and_outlives_compaction(log: Log) -> None:
    connector, task = TaskId("c", CONNECTOR), TaskId("c", 0)
    records = {}

    def revisions() -> tuple[int, int]:
        return log.image.revision(connector), log.image.revision(task)

    def change(decided: Decided[object]) -> tuple[int, int]:
        for record in decided.records:
            log.add(record)
            records[type(record), getattr(record, "task", None)] = (record, log.image.offset)
        return revisions()

    first = change(decisions.put(log.image, "c", {"a": "2"}))
    planned = change(decisions.set_tasks(log.image, "c", [{"a": "2"}]))
    assert planned[0] == first[0] and planned[1] > first[1] == -1
    changed = change(decisions.put(log.image, "c", {"a": "3"}))
    assert changed[0] > planned[0] and changed[1] == planned[1]
    rewound = change(decisions.next_generation(log.image, "c"))
    assert rewound > changed and rewound[1] > changed[1]
    # What compaction leaves gives the same revisions.
    compacted = ConfigImage()
    for record, offset in sorted(records.values(), key=lambda each: each[1]):
        compacted.replay(record, offset)
    assert (compacted.revision(connector), compacted.revision(task)) == rewound
    change(decisions.delete(log.image, "c"))
    change(decisions.create(log.image, "c", {"a": "2"}, None))
    assert log.image.revision(connector) > rewound[0]
