"""The server-side assignors beside Apache Kafka's own classes, over many generated groups.

`range` assigns exactly as Kafka's does. `uniform` depends on the order of Kafka's hash tables where loads are
equal, so its promises are compared: every partition has one reader that is subscribed to its topic, loads are
as even, and no more partitions move.
"""

from __future__ import annotations

import os
import random
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.core.groups.consumer import range_assignor, uniform_assignor
from ottla.core.groups.consumer.specs import GroupSpec, MemberSpec, Target
from support.java.java_tools import java_command, kafka_classpath

pytestmark = [pytest.mark.java, pytest.mark.long]

ORACLE = Path(__file__).parents[2] / "support" / "java" / "AssignorOracle.java"
GROUPS = 1_500
SOME_MORE = 1.01
"""How much worse than Kafka's all groups together may be where members have different subscriptions."""


def topic_id(number: int) -> uuid.UUID:
    return uuid.UUID(int=number + 1)


def generated_groups(homogeneous: bool) -> Iterator[GroupSpec]:
    """Groups of all sizes; members' partitions are of an earlier time, when the group had others too."""
    dice = random.Random(848)
    for _ in range(GROUPS):
        topics = dice.randint(1, 6)
        counts = {topic_id(topic): dice.randint(1, 12) for topic in range(topics)}
        all_topics = list(counts)
        some = frozenset(dice.sample(all_topics, dice.randint(1, topics)))
        names = dice.sample([f"member-{n}" for n in range(40)], dice.randint(1, 9))
        held: dict[str, dict[uuid.UUID, set[int]]] = {name: {} for name in names}
        former = dice.choice([0.0, 0.5, 1.0])
        lopsided = dice.random() < 0.5
        for topic, count in counts.items():
            for partition in range(count):
                if dice.random() < former:
                    owner = names[0] if lopsided and dice.random() < 0.7 else dice.choice(names)
                    held[owner].setdefault(topic, set()).add(partition)
        members = {}
        for number, name in enumerate(names):
            wanted = some if homogeneous else frozenset(dice.sample(all_topics, dice.randint(0, topics)))
            members[name] = MemberSpec(
                wanted,
                {topic: frozenset(partitions) for topic, partitions in held[name].items()},
                f"i{99 - number}" if dice.random() < 0.3 else None,
            )
        yield GroupSpec(members, counts, homogeneous)


def question(assignor: str, group: GroupSpec) -> str:
    counts = ",".join(str(count) for count in group.partition_counts.values())
    members = []
    for name, member in group.members.items():
        topics = ",".join(str(topic.int - 1) for topic in member.topics)
        current = ",".join(
            f"{topic.int - 1}:{'.'.join(map(str, sorted(partitions)))}"
            for topic, partitions in member.current.items()
        )
        members.append(f"{name};{member.instance_id or ''};{topics};{current}")
    kind = "HOMOGENEOUS" if group.homogeneous else "HETEROGENEOUS"
    return f"{assignor} {kind} {counts} {'|'.join(members)}"


def parsed(answer: str) -> Target:
    target: Target = {}
    for part in filter(None, answer.split("|")):
        name, _, topics = part.partition("=")
        target[name] = {
            topic_id(int(topic)): frozenset(map(int, partitions.split(".")))
            for topic, _, partitions in (each.partition(":") for each in topics.split(",") if each)
        }
    return target


def kafkas(assignor: str, groups: list[GroupSpec], directory: Path) -> list[Target]:
    """The targets of Kafka's classes. PySpark's Janino compiles the program: Java may have no compiler."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    janino = [
        str(path) for pattern in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(pattern)
    ]
    questions, answers = directory / "questions", directory / "answers"
    questions.write_text("".join(f"{question(assignor, group)}\n" for group in groups))
    command = java_command(
        "org.codehaus.janino.SimpleCompiler",
        str(ORACLE),
        "AssignorOracle",
        str(questions),
        str(answers),
        class_path=os.pathsep.join((kafka_classpath(), *janino)),
    )
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return [parsed(line) for line in answers.read_text().splitlines()]


def pairs(target: Target) -> dict[tuple[uuid.UUID, int], str]:
    """Partition -> its one reader."""
    readers: dict[tuple[uuid.UUID, int], str] = {}
    for name, topics in target.items():
        for topic, partitions in topics.items():
            for partition in partitions:
                assert (topic, partition) not in readers, "two readers"
                readers[topic, partition] = name
    return readers


def check_valid(group: GroupSpec, target: Target) -> None:
    wanted = {topic for member in group.members.values() for topic in member.topics}
    readers = pairs(target)
    assert set(readers) == {(topic, p) for topic in wanted for p in range(group.partition_counts[topic])}
    assert all(topic in group.members[name].topics for (topic, _), name in readers.items())


def loads(group: GroupSpec, target: Target) -> list[int]:
    return sorted(sum(map(len, target.get(name, {}).values())) for name in group.members)


def moves(group: GroupSpec, target: Target) -> int:
    """The number of partitions that were taken from a member that is still subscribed to their topic."""
    readers = pairs(target)
    return sum(
        readers[topic, partition] != name
        for name, member in group.members.items()
        for topic, partitions in member.current.items()
        if topic in member.topics
        for partition in partitions
    )


@pytest.mark.parametrize("homogeneous", [True, False])
def test_range_assigns_exactly_as_kafkas(tmp_path: Path, homogeneous: bool) -> None:
    groups = list(generated_groups(homogeneous))
    for group, expected in zip(groups, kafkas("range", groups, tmp_path), strict=True):
        found = {name: topics for name, topics in range_assignor.assign(group).items() if topics}
        assert found == {name: topics for name, topics in expected.items() if topics}, group


def test_uniform_is_as_even_and_as_sticky_where_subscriptions_are_equal(tmp_path: Path) -> None:
    groups = list(generated_groups(homogeneous=True))
    for group, kafka in zip(groups, kafkas("uniform", groups, tmp_path), strict=True):
        ours = uniform_assignor.assign(group)
        check_valid(group, ours)
        check_valid(group, kafka)
        assert loads(group, ours) == loads(group, kafka), group
        assert moves(group, ours) <= moves(group, kafka), group


def test_uniform_is_as_even_and_as_sticky_where_subscriptions_differ(tmp_path: Path) -> None:
    groups = list(generated_groups(homogeneous=False))
    our_moves = kafkas_moves = our_squares = kafkas_squares = 0
    for group, kafka in zip(groups, kafkas("uniform", groups, tmp_path), strict=True):
        ours = uniform_assignor.assign(group)
        check_valid(group, ours)
        check_valid(group, kafka)
        # Evening out makes the sum of squares smaller. Neither looks for chains of moves, and each
        # misses some that the other one is spared by its order.
        assert max(loads(group, ours)) <= max(loads(group, kafka)) + 1, group
        our_squares += sum(n * n for n in loads(group, ours))
        kafkas_squares += sum(n * n for n in loads(group, kafka))
        our_moves += moves(group, ours)
        kafkas_moves += moves(group, kafka)
    assert our_squares <= kafkas_squares * SOME_MORE, (our_squares, kafkas_squares)
    assert our_moves <= kafkas_moves * SOME_MORE, (our_moves, kafkas_moves)


def test_nothing_moves_without_a_reason() -> None:
    for homogeneous in (True, False):
        for group in generated_groups(homogeneous):
            first = uniform_assignor.assign(group)
            again = GroupSpec(
                {
                    name: MemberSpec(member.topics, first.get(name, {}), member.instance_id)
                    for name, member in group.members.items()
                },
                group.partition_counts,
                homogeneous,
            )
            assert moves(again, uniform_assignor.assign(again)) == 0
