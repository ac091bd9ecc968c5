"""The sticky task assignor beside Kafka's own class, over generated groups: first assignments and later ones.

Kafka breaks ties by the order of its hash tables. So assignments must be the same only where no task is to be
given away (the active tasks of members that are those of the last assignment); over all groups, as many tasks
must stay with their members, and members must be as equal, but for ties.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.core.groups.streams.assignor import PreviousMember, TaskWidth, assign
from ottla.core.groups.streams.tasks import TargetTasks, TaskId, Tasks
from support.java.java_tools import java_command, kafka_classpath

pytestmark = [pytest.mark.java, pytest.mark.long]

ORACLE = Path(__file__).parents[2] / "support" / "java" / "StreamsAssignorOracle.java"
GROUPS = 600
LIVES = 4
"""Assignments of a group one after another; members come and go in between."""


class Case:
    """One question to the assignors."""

    def __init__(
        self,
        members: list[PreviousMember],
        subtopologies: Mapping[str, TaskWidth],
        standbys: int,
        is_settled: bool,
    ) -> None:
        self.members, self.subtopologies, self.standbys = members, subtopologies, standbys
        self.is_settled = is_settled
        """Whether these members have an assignment already."""

    def question(self) -> str:
        subtopologies = " ".join(
            f"{name}:{each.task_count}:{int(each.is_stateful)}" for name, each in self.subtopologies.items()
        )
        members = " ".join(
            f"{each.member_id}:{each.process_id}:{shown(each.assigned.active)}:{shown(each.assigned.standby)}:"
            + ",".join(
                f"{task.subtopology_id}-{task.partition}-{offset}" for task, offset in each.offsets.items()
            )
            for each in self.members
        )
        return f"{self.standbys}|{subtopologies}|{members}"

    def ours(self) -> dict[str, TargetTasks]:
        return assign(self.members, self.subtopologies, self.standbys)


def shown(tasks: Tasks) -> str:
    return ",".join(f"{name}-{partition}" for name in sorted(tasks) for partition in sorted(tasks[name]))


def parsed(answer: str) -> dict[str, TargetTasks]:
    targets = {}
    for member in answer.split(" "):
        member_id, active, standby = member.split(":")
        targets[member_id] = TargetTasks(_tasks(active), _tasks(standby))
    return targets


def _tasks(text: str) -> dict[str, frozenset[int]]:
    tasks: dict[str, set[int]] = {}
    for word in filter(None, text.split(",")):
        name, _, partition = word.partition("-")
        tasks.setdefault(name, set()).add(int(partition))
    return {name: frozenset(partitions) for name, partitions in tasks.items()}


def lives(random_: random.Random) -> list[Case]:
    """A group's assignments one after another, each as ours leaves it, with members that come and go."""
    subtopologies = {
        str(index): TaskWidth(random_.randint(1, 6), random_.random() < 0.5)
        for index in range(random_.randint(1, 3))
    }
    standbys = random_.choice([0, 0, 1, 2])
    names = iter(range(1000))
    members = [_member(random_, next(names)) for _ in range(random_.randint(1, 4))]
    cases = []
    is_settled = False
    for _ in range(LIVES):
        case = Case(members, subtopologies, standbys, is_settled)
        cases.append(case)
        targets = case.ours()
        members = [
            member._replace(assigned=targets[member.member_id], offsets=_offsets(random_, subtopologies))
            for member in members
        ]
        change = random_.random()
        before = members
        if change < 0.4:
            members = [*members, _member(random_, next(names))]
        elif change < 0.7 and len(members) > 1:
            members = random_.sample(members, len(members) - 1)
        is_settled = members is before
    return cases


def _offsets(random_: random.Random, subtopologies: Mapping[str, TaskWidth]) -> dict[TaskId, int]:
    """Offsets that a member tells: of tasks that it has, and of some whose state is left on its disk."""
    if random_.random() < 0.5:
        return {}
    tasks = [TaskId(name, index) for name, each in subtopologies.items() for index in range(each.task_count)]
    return {task: random_.randint(0, 50) for task in tasks if random_.random() < 0.4}


def _member(random_: random.Random, number: int) -> PreviousMember:
    return PreviousMember(f"m{number:03}", f"p{random_.randint(0, 3)}", TargetTasks())


def run_oracle(cases: list[Case], directory: Path) -> list[dict[str, TargetTasks]]:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    janino = [
        str(path) for pattern in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(pattern)
    ]
    questions, answers = directory / "questions", directory / "answers"
    questions.write_text("".join(f"{case.question()}\n" for case in cases))
    command = java_command(
        "org.codehaus.janino.SimpleCompiler",
        str(ORACLE),
        "StreamsAssignorOracle",
        str(questions),
        str(answers),
        class_path=os.pathsep.join((kafka_classpath(), *janino)),
    )
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return [parsed(line) for line in answers.read_text().splitlines()]


def check(case: Case, targets: Mapping[str, TargetTasks]) -> None:
    """Every task is active once; a process has a task once; standbys are as many as there are places."""
    processes = {member.member_id: member.process_id for member in case.members}
    had: set[tuple[str, str, int]] = set()
    active: list[tuple[str, int]] = []
    standby: list[tuple[str, int]] = []
    for member_id, target in targets.items():
        for tasks, into in ((target.active, active), (target.standby, standby)):
            for name, partitions in tasks.items():
                for partition in partitions:
                    into.append((name, partition))
                    key = processes[member_id], name, partition
                    assert key not in had, f"{key} twice"
                    had.add(key)
    all_tasks = [
        (name, index) for name, each in case.subtopologies.items() for index in range(each.task_count)
    ]
    assert sorted(active) == sorted(all_tasks)
    places = min(case.standbys, len(set(processes.values())) - 1)
    stateful = [task for task in all_tasks if case.subtopologies[task[0]].is_stateful]
    assert sorted(standby) == sorted(stateful * places)


def active_of(targets: Mapping[str, TargetTasks]) -> dict[str, Tasks]:
    return {member_id: target.active for member_id, target in targets.items()}


def active_counts(targets: Mapping[str, TargetTasks]) -> list[int]:
    return sorted(sum(map(len, target.active.values())) for target in targets.values())


def stayed(case: Case, targets: Mapping[str, TargetTasks]) -> int:
    """How many active tasks stay with their members."""
    return sum(
        len(partitions & targets[member.member_id].active.get(name, frozenset()))
        for member in case.members
        for name, partitions in member.assigned.active.items()
    )


def test_as_balanced_and_as_sticky_as_kafkas(tmp_path: Path) -> None:
    random_ = random.Random(1071)
    cases = [case for _ in range(GROUPS // LIVES) for case in lives(random_)]
    kafkas = run_oracle(cases, tmp_path)
    kept = Counter[str]()
    spread = Counter[str]()
    for case, theirs in zip(cases, kafkas, strict=True):
        ours = case.ours()
        check(case, ours)
        check(case, theirs)
        if case.is_settled or len(case.members) == 1:
            assert active_of(ours) == active_of(theirs), case.question()
        for name, targets in (("ours", ours), ("theirs", theirs)):
            counts = active_counts(targets)
            kept[name] += stayed(case, targets)
            spread[name] += counts[-1] - counts[0]
    assert sum(case.is_settled for case in cases) > len(cases) / 10
    assert kept["ours"] >= 0.99 * kept["theirs"], kept
    assert spread["ours"] <= 1.05 * spread["theirs"], spread
