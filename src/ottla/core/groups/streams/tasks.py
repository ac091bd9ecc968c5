"""The tasks of streams members: targets, and the tasks that members hold.

A task is one partition of a subtopology. It is active at one member; standbys keep a copy of its state, and
warm-ups are on the way to one. Sets of tasks map a subtopology's id to partitions, without empty entries.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias


class TaskId(NamedTuple):
    subtopology_id: str
    partition: int


class TaskRole(enum.Enum):
    ACTIVE = enum.auto()
    STANDBY = enum.auto()
    WARMUP = enum.auto()


Tasks: TypeAlias = Mapping[str, frozenset[int]]
ActiveTasks: TypeAlias = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the epoch in which the member got the task."""


@dataclass(frozen=True, slots=True)
class TargetTasks:
    """The tasks of a member in a target assignment."""

    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def has_any_of(self, held: HeldTasks) -> bool:
        """Whether one of the tasks in `held` is here in the same role."""
        return (
            _overlap(self.active, held.active)
            or _overlap(self.standby, held.standby)
            or _overlap(self.warmup, held.warmup)
        )


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """The tasks that a member holds."""

    active: ActiveTasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def as_target(self) -> TargetTasks:
        """The tasks without the epochs in which the member got them."""
        active = {name: frozenset(epochs) for name, epochs in self.active.items()}
        return TargetTasks(active, self.standby, self.warmup)

    def copies(self) -> Tasks:
        """The tasks of which the member keeps a copy: standbys and warm-ups."""
        return union(self.standby, self.warmup)

    def __iter__(self) -> Iterator[tuple[TaskRole, TaskId]]:
        tasks: Mapping[str, Iterable[int]]
        for role, tasks in (
            (TaskRole.ACTIVE, self.active),
            (TaskRole.STANDBY, self.standby),
            (TaskRole.WARMUP, self.warmup),
        ):
            for subtopology_id, partitions in tasks.items():
                for partition in partitions:
                    yield role, TaskId(subtopology_id, partition)

    def merged_with(self, more: HeldTasks) -> HeldTasks:
        """These tasks and `more`, which have none in common."""
        return HeldTasks(
            {
                name: {**self.active.get(name, {}), **more.active.get(name, {})}
                for name in [*self.active, *(name for name in more.active if name not in self.active)]
            },
            union(self.standby, more.standby),
            union(self.warmup, more.warmup),
        )


NOTHING_HELD = HeldTasks()
NO_TARGET = TargetTasks()


def tasks_of(task_ids: Iterable[Any] | None) -> Tasks:
    """The tasks of a message's or a record's TaskIds, whose structures have the same fields."""
    tasks: dict[str, frozenset[int]] = {}
    for each in task_ids or ():
        if each.partitions:
            tasks[each.subtopology_id] = tasks.get(each.subtopology_id, frozenset()) | set(each.partitions)
    return tasks


def task_ids_of(make: Any, tasks: Mapping[str, Iterable[int]]) -> list[Any]:
    """Tasks as a list of `make`, the TaskIds structure of a message or record; in order."""
    return [make(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]


def _overlap(some: Tasks, others: Mapping[str, Iterable[int]]) -> bool:
    return any(not partitions.isdisjoint(others[name]) for name, partitions in some.items() if name in others)


def union(some: Tasks, more: Tasks) -> Tasks:
    names = [*some, *(name for name in more if name not in some)]
    return {name: some.get(name, frozenset()) | more.get(name, frozenset()) for name in names}
