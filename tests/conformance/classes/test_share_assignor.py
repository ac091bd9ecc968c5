"""The `simple` assignor of share groups beside Apache Kafka's own class, over many groups that change."""

from __future__ import annotations

import os
import random
import subprocess
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from ottla.core.groups.share import assignor
from ottla.core.groups.share.group import TopicPartitions
from support.java.java_tools import java_command, kafka_classpath

pytestmark = [pytest.mark.java, pytest.mark.long]

ORACLE = Path(__file__).parents[2] / "support" / "java" / "ShareAssignorOracle.java"
MOST_SIGNIFICANT = 0x1234567890
GROUPS = 400
CHANGES_A_GROUP = 6

Case: TypeAlias = tuple[dict[str, frozenset[uuid.UUID]], dict[uuid.UUID, int], dict[str, TopicPartitions]]
"""The members' subscriptions, the partitions by topic, the members' assignments."""


def topic_id(number: int) -> uuid.UUID:
    return uuid.UUID(int=MOST_SIGNIFICANT << 64 | number)


def number_of(topic: uuid.UUID) -> int:
    return topic.int & 0xFFFF_FFFF_FFFF_FFFF


def kafkas(cases: list[Case], directory: Path) -> list[dict[str, TopicPartitions]]:
    """The assignments of Apache Kafka's class in each case."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    janino = [str(path) for name in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(name)]
    questions, answers = directory / "questions", directory / "answers"
    questions.write_text("".join(f"{question(*case)}\n" for case in cases))
    command = java_command(
        "org.codehaus.janino.SimpleCompiler",
        str(ORACLE),
        "ShareAssignorOracle",
        str(questions),
        str(answers),
        class_path=os.pathsep.join((kafka_classpath(), *janino)),
    )
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return [answer(line) for line in answers.read_text().splitlines()]


def question(
    wanted: Mapping[str, frozenset[uuid.UUID]],
    topics: Mapping[uuid.UUID, int],
    current: Mapping[str, TopicPartitions],
) -> str:
    shown_topics = "|".join(
        f"{number_of(topic)}:{count}:{','.join(map(str, range(count)))}" for topic, count in topics.items()
    )
    members = []
    for member, subscribed in wanted.items():
        has = ";".join(
            f"{number_of(topic)}:{','.join(map(str, sorted(partitions)))}"
            for topic, partitions in current.get(member, {}).items()
        )
        members.append(f"{member}={','.join(str(number_of(topic)) for topic in sorted(subscribed))}={has}")
    return f"{shown_topics} {'|'.join(members)}"


def answer(line: str) -> dict[str, TopicPartitions]:
    given: dict[str, TopicPartitions] = {}
    for member in line.split("|"):
        name, _, topics = member.partition("=")
        given[name] = {
            topic_id(int(number)): frozenset(map(int, partitions.split(",")))
            for number, _, partitions in (topic.partition(":") for topic in topics.split(";") if topic)
        }
    return given


def places(given: Mapping[str, TopicPartitions]) -> set[tuple[str, uuid.UUID, int]]:
    return {
        (member, topic, partition)
        for member, topics in given.items()
        for topic, partitions in topics.items()
        for partition in partitions
    }


def histories(homogeneous: bool) -> list[Case]:
    """Groups with members that come and go and topics that grow, each step from our last assignment."""
    dice = random.Random(932)
    cases: list[Case] = []
    for _ in range(GROUPS):
        topics = {topic_id(number): dice.randint(1, 6) for number in range(1, dice.randint(2, 4))}
        wanted: dict[str, frozenset[uuid.UUID]] = {}
        current: dict[str, TopicPartitions] = {}
        everything = frozenset(topics)
        for step in range(CHANGES_A_GROUP):
            if wanted and dice.random() < 0.35:
                del wanted[dice.choice(sorted(wanted))]
            elif dice.random() < 0.2:
                grown = dice.choice(sorted(topics))
                topics = {**topics, grown: topics[grown] + dice.randint(1, 3)}
            for number in range(dice.randint(0 if wanted else 1, 3)):
                some = frozenset(topic for topic in topics if dice.random() < 0.6)
                wanted[f"m{step}-{number}"] = everything if homogeneous else some or everything
            current = {member: has for member, has in current.items() if member in wanted}
            cases.append((dict(wanted), topics, current))
            current = assignor.assign(wanted, assignable(topics), current)
    return cases


def assignable(topics: Mapping[uuid.UUID, int]) -> TopicPartitions:
    return {topic: frozenset(range(count)) for topic, count in topics.items()}


@pytest.mark.parametrize("homogeneous", [True, False], ids=["one-subscription", "many-subscriptions"])
def test_members_get_as_much_as_from_kafka(homogeneous: bool, tmp_path: Path) -> None:
    # given
    cases = histories(homogeneous)
    # when
    theirs = kafkas(cases, tmp_path)
    # then
    ours_kept = theirs_kept = 0
    for (wanted, topics, current), their in zip(cases, theirs, strict=True):
        ours = assignor.assign(wanted, assignable(topics), current)
        assert ours.keys() == their.keys() == wanted.keys()
        our_places, their_places, had = places(ours), places(their), places(current)
        ours_kept += len(our_places & had)
        theirs_kept += len(their_places & had)
        our_sharing = Counter((topic, partition) for _, topic, partition in our_places)
        their_sharing = Counter((topic, partition) for _, topic, partition in their_places)
        # Kafka's single pass may leave places empty; none of ours are.
        assert all(our_sharing[partition] >= shared for partition, shared in their_sharing.items())
        if our_sharing == their_sharing and homogeneous:
            our_sizes = sorted(sum(map(len, has.values())) for has in ours.values())
            assert our_sizes == sorted(sum(map(len, has.values())) for has in their.values())
        for member, has in ours.items():
            assert has.keys() <= wanted[member]
    # and as much stays where it is
    assert ours_kept >= theirs_kept


def test_without_a_choice_assignments_are_equal(tmp_path: Path) -> None:
    # given: lone members, and members who each must have everything
    topics = {topic_id(1): 3, topic_id(2): 1}
    cases: list[Case] = []
    for current in ({}, {"m0": {topic_id(1): frozenset({0})}}):
        cases.append(({"m0": frozenset(topics)}, topics, current))
        cases.append(({"m0": frozenset({topic_id(1)}), "m1": frozenset({topic_id(2)})}, topics, current))
        for count in range(1, 6):
            everybody = {f"m{number}": frozenset({topic_id(2)}) for number in range(count)}
            cases.append((everybody, topics, {}))
    # and groups that are in balance already
    for members, partitions in ((2, 4), (3, 3), (4, 2), (6, 3)):
        wanted = {f"m{number}": frozenset({topic_id(7)}) for number in range(members)}
        balanced = assignor.assign(wanted, {topic_id(7): frozenset(range(partitions))}, {})
        cases.append((wanted, {topic_id(7): partitions}, balanced))
    # then
    for case, their in zip(cases, kafkas(cases, tmp_path), strict=True):
        wanted, topics, current = case
        assert assignor.assign(wanted, assignable(topics), current) == their
