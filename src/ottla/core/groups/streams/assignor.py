"""Kafka's sticky task assignor: every task to one member, balanced, with as few moves as balance allows.

Theory of operation. Active tasks come first. Each returns to its previous member while that has less than its
share; then to a member that had it as a standby, or has its state on disk; the rest goes to the process with
the least load (tasks a member), and in it to the member with the fewest tasks. Standbys follow: to the member
that was active for the task, if its process does not run it now, else to one that had the standby or the
state, else to the least loaded process that has the task in no role. A process has a task once, because its
members share one state directory. The shares shrink while members fill up, so that remainders are spread.
Ties go to the earlier member.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from ottla.core.groups.streams.tasks import TargetTasks, TaskId


class TaskWidth(NamedTuple):
    """The number of a subtopology's tasks, and whether they keep state (only then there are standbys)."""

    task_count: int
    is_stateful: bool


NO_OFFSETS: Mapping[TaskId, int] = MappingProxyType({})


class PreviousMember(NamedTuple):
    """A member with the tasks that it holds, and the offsets of those whose state it has on disk."""

    member_id: str
    process_id: str
    assigned: TargetTasks
    offsets: Mapping[TaskId, int] = NO_OFFSETS


@dataclass(slots=True)
class _Process:
    """The members of one process and their tasks so far."""

    members: dict[str, int] = field(default_factory=dict)
    """Member id -> tasks."""
    tasks: set[TaskId] = field(default_factory=set)

    @property
    def load(self) -> float:
        return sum(self.members.values()) / len(self.members)

    def least_loaded(self) -> str:
        return min(self.members, key=self.members.__getitem__)


class _Share:
    """The number of tasks that a member may have, so that the others can have as many."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._tasks_left = task_count
        self._members_left = member_count
        self.size = self._compute()

    def on_given(self, count: int) -> None:
        """A member now has `count` tasks; one with a full share no longer counts for the others' share."""
        if count == self.size:
            self._members_left -= 1
            self._tasks_left -= count
            self.size = self._compute()

    def _compute(self) -> int:
        return -(-self._tasks_left // self._members_left) if self._members_left else 0


class _Assignment:
    """One run of the assignor."""

    def __init__(self, members: list[PreviousMember], standby_count: int, active: int, standby: int) -> None:
        self.standby_count = standby_count
        self.processes: dict[str, _Process] = {}
        self.process_of = {member.member_id: member.process_id for member in members}
        self.was_active: dict[TaskId, str] = {}
        self.were_standby: dict[TaskId, list[str]] = {}
        self.active: dict[str, list[TaskId]] = {}
        self.standby: dict[str, list[TaskId]] = {}
        self.active_share = _Share(active, len(members))
        self.total_share = _Share(active + standby, len(members))
        for member in members:
            self.processes.setdefault(member.process_id, _Process()).members[member.member_id] = 0
            self.active[member.member_id] = []
            self.standby[member.member_id] = []
            for name, partitions in member.assigned.active.items():
                for partition in partitions:
                    self.was_active[TaskId(name, partition)] = member.member_id
        self._rank_standbys(members)

    def _rank_standbys(self, members: list[PreviousMember]) -> None:
        """Note the members with a task's state on disk: standbys first, the furthest of them first."""
        candidates: dict[TaskId, list[tuple[bool, int, str]]] = {}
        for member in members:
            standbys = {
                TaskId(name, partition)
                for name, partitions in member.assigned.standby.items()
                for partition in partitions
            }
            for task in standbys.union(member.offsets):
                ranked = (task not in standbys, -member.offsets.get(task, 0), member.member_id)
                candidates.setdefault(task, []).append(ranked)
        for task, found in candidates.items():
            found.sort(key=lambda each: each[:2])
            self.were_standby[task] = [member_id for _, _, member_id in found]

    def process(self, member_id: str) -> _Process:
        return self.processes[self.process_of[member_id]]

    def count(self, member_id: str) -> int:
        return self.process(member_id).members[member_id]

    def give(self, member_id: str, task: TaskId, active: bool) -> None:
        process = self.process(member_id)
        process.members[member_id] += 1
        process.tasks.add(task)
        (self.active if active else self.standby)[member_id].append(task)
        if active:
            self.active_share.on_given(process.members[member_id])
        self.total_share.on_given(process.members[member_id])

    # Active tasks

    def assign_active(self, tasks: list[TaskId]) -> None:
        left = []
        for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology_id)):
            member_id = self.was_active.get(task)
            if member_id is not None and self.count(member_id) < self.active_share.size:
                self.give(member_id, task, active=True)
            else:
                left.append(task)
        new = []
        for task in left:
            standby = self._least_loaded(self.were_standby.get(task, []), None)
            if standby is not None and self.count(standby) < self.active_share.size:
                self.give(standby, task, active=True)
            else:
                new.append(task)
        queue = self._queue()
        for task in sorted(new):
            _, order, process = heapq.heappop(queue)
            self.give(process.least_loaded(), task, active=True)
            heapq.heappush(queue, (process.load, order, process))

    # Standbys

    def assign_standbys(self, tasks: list[TaskId]) -> None:
        left: list[tuple[TaskId, int]] = []
        for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology_id), reverse=True):
            for given in range(self.standby_count):
                if not self._give_back_standby(task):
                    left.append((task, self.standby_count - given))
                    break
        queue = self._queue()
        for task, count in sorted(left, reverse=True):
            for _ in range(count):
                if not self._give_standby_to_least_loaded(queue, task):
                    break  # There are fewer processes than copies.

    def _give_back_standby(self, task: TaskId) -> bool:
        """Give a standby to a member that had the task, if
        there is one with room for it. Whether it was given.
        """
        member_id = self.was_active.get(task)
        if member_id is not None and self._may_be_standby(member_id, task):
            self.give(member_id, task, active=False)
            return True
        member_id = self._least_loaded(self.were_standby.get(task, []), task)
        if member_id is not None and self._may_be_standby(member_id, task):
            self.give(member_id, task, active=False)
            return True
        return False

    def _may_be_standby(self, member_id: str, task: TaskId) -> bool:
        return task not in self.process(member_id).tasks and self.count(member_id) < self.total_share.size

    def _give_standby_to_least_loaded(self, queue: list[tuple[float, int, _Process]], task: TaskId) -> bool:
        passed_over = []
        found = False
        while queue and not found:
            load, order, process = heapq.heappop(queue)
            if task in process.tasks:
                passed_over.append((load, order, process))
            else:
                self.give(process.least_loaded(), task, active=False)
                heapq.heappush(queue, (process.load, order, process))
                found = True
        for entry in passed_over:
            heapq.heappush(queue, entry)
        return found

    def _least_loaded(self, member_ids: list[str], task: TaskId | None) -> str | None:
        """The first member, unless a later one's process has less load and itself fewer tasks.

        With a `task`, only members whose processes do not have it.
        """
        candidate = None
        for member_id in member_ids:
            process = self.process(member_id)
            if task is not None and task in process.tasks:
                continue
            if candidate is None or (
                process.load < self.process(candidate).load and self.count(member_id) < self.count(candidate)
            ):
                candidate = member_id
        return candidate

    def _queue(self) -> list[tuple[float, int, _Process]]:
        """The processes by load, as a heap; the order of the members breaks ties."""
        queue = [(process.load, order, process) for order, process in enumerate(self.processes.values())]
        heapq.heapify(queue)
        return queue


def assign(
    members: list[PreviousMember], subtopologies: Mapping[str, TaskWidth], standby_count: int
) -> dict[str, TargetTasks]:
    """The target of each of these members (at least one), by member id."""
    active = [TaskId(name, index) for name, each in subtopologies.items() for index in range(each.task_count)]
    stateful = [task for task in active if subtopologies[task.subtopology_id].is_stateful]
    run = _Assignment(members, standby_count, len(active), len(stateful) * standby_count)
    run.assign_active(active)
    if standby_count:
        run.assign_standbys(stateful)
    return {
        member.member_id: TargetTasks(
            _by_subtopology(run.active[member.member_id]), _by_subtopology(run.standby[member.member_id])
        )
        for member in members
    }


def _by_subtopology(tasks: list[TaskId]) -> dict[str, frozenset[int]]:
    partitions: dict[str, list[int]] = {}
    for task in tasks:
        partitions.setdefault(task.subtopology_id, []).append(task.partition)
    return {name: frozenset(partitions[name]) for name in sorted(partitions)}
