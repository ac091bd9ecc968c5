"""`ottla mirror FILE` between two clusters: records, groups, heartbeats, status, several copies, kills."""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer

from support.clients.confluent import admin_client, create_topic, eventually, poll_messages
from support.mirror.movers import Mover, commit, committed, names_of, read_log, until_equal, write
from support.mirror.processes import MirrorProcess, mm2_file
from support.servers.ottla_broker import OttlaBroker

PARTITIONS = 3


@dataclass(slots=True)
class Pair:
    """Two clusters with a mirror both ways, and dice."""

    a: OttlaBroker
    b: OttlaBroker
    mirror: MirrorProcess
    dice: random.Random

    @property
    def at_a(self) -> dict[str, str]:
        return {"bootstrap.servers": self.a.bootstrap}

    @property
    def at_b(self) -> dict[str, str]:
        return {"bootstrap.servers": self.b.bootstrap}

    def topic(self) -> str:
        """A new topic on A with records in it."""
        name = create_topic(self.a.bootstrap, f"orders-{self.dice.getrandbits(32):x}", PARTITIONS)
        write(self.at_a, name, self.dice, self.dice.randint(200, 3_000), PARTITIONS)
        return name

    def caught_up(self, topic: str) -> None:
        """Wait until B has A's records."""
        eventually(lambda: f"A.{topic}" in topics_of(self.b), f"A.{topic} is there", 60)
        until_equal(
            lambda: read_log(self.at_a, topic).values(),
            lambda: read_log(self.at_b, f"A.{topic}").values(),
            f"{topic} is copied",
        )


def topics_of(broker: OttlaBroker) -> list[str]:
    return list(admin_client(broker.bootstrap).list_topics(timeout=20).topics)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("mirror")
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    with ExitStack() as stack:
        a = stack.enter_context(OttlaBroker.start(directory / "a"))
        b = stack.enter_context(OttlaBroker.start(directory / "b"))
        flows = {"A->B.enabled": "true", "B->A.enabled": "true", "unknown.key": "1", "tasks.max": "2"}
        file = mm2_file(directory / "mm2.properties", {"A": a.bootstrap, "B": b.bootstrap}, flows)
        mirror = stack.enter_context(MirrorProcess.start(file))
        yield Pair(a, b, mirror, random.Random(seed))


def test_groups_move_over_and_come_back_without_a_loss(pair: Pair) -> None:
    topic = pair.topic()
    pair.caught_up(topic)
    log = read_log(pair.at_a, topic)
    movers = [Mover.begin(pair.at_a, f"g-{topic}-{n}", topic, log, pair.dice) for n in range(4)]
    for mover in movers:
        offsets = mover.moved(pair.at_b, f"A.{topic}", lambda: read_log(pair.at_b, f"A.{topic}"))
        # they go on at B, and go home from there
        there = read_log(pair.at_b, f"A.{topic}")
        after = mover.read_on(there, offsets, pair.dice)
        commit(pair.at_b, mover.group, f"A.{topic}", after)
    write(pair.at_a, topic, pair.dice, 300, PARTITIONS)
    for mover in movers:
        mover.moved(pair.at_a, topic, lambda: read_log(pair.at_a, topic))


def test_a_group_that_is_ahead_or_has_members_on_the_target_is_left_alone(pair: Pair) -> None:
    topic = pair.topic()
    pair.caught_up(topic)
    log = read_log(pair.at_a, topic)
    end = {each: records[-1][0] + 1 if records else 0 for each, records in log.partitions.items()}
    there = read_log(pair.at_b, f"A.{topic}")
    far = {each: records[-1][0] + 1 if records else 0 for each, records in there.partitions.items()}
    commit(pair.at_b, f"ahead-{topic}", f"A.{topic}", far)
    # it commits nothing itself, however long this takes
    own = {"group.id": f"busy-{topic}", "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    member = Consumer({**pair.at_b, **own})
    member.subscribe([f"A.{topic}"])
    poll_messages(member, 1)
    try:
        for name in (f"ahead-{topic}", f"busy-{topic}", f"idle-{topic}"):
            offsets = end if name.startswith("idle") else {each: offset // 2 for each, offset in end.items()}
            commit(pair.at_a, name, topic, offsets)
        # once the idle one has arrived, all were looked at
        until_equal(
            lambda: {each: offset for each, offset in far.items() if offset},
            lambda: {
                each: offset
                for each, offset in committed(pair.at_b, f"idle-{topic}", f"A.{topic}", PARTITIONS).items()
                if offset > 0
            },
            "the idle group is at the end",
        )
        assert committed(pair.at_b, f"ahead-{topic}", f"A.{topic}", PARTITIONS) == far
        assert set(committed(pair.at_b, f"busy-{topic}", f"A.{topic}", PARTITIONS).values()) == {-1001}
    finally:
        member.close()


def test_nothing_goes_round_and_heartbeats_tell_of_both_ways(pair: Pair) -> None:
    topic = pair.topic()
    pair.caught_up(topic)
    eventually(lambda: "A.heartbeats" in topics_of(pair.b), "B has A's heartbeats", 60)
    eventually(lambda: "B.heartbeats" in topics_of(pair.a), "A has B's heartbeats", 60)
    for broker, other in ((pair.a, "B"), (pair.b, "A")):
        for name in names_of(topics_of(broker)):
            assert name.count(f"{other}.") <= 1 and not name.startswith(f"{other}.{other}"), name
            assert not name.startswith(("A.B.", "B.A.")), name


def test_status_and_metrics_tell_the_flows(pair: Pair) -> None:
    topic = pair.topic()
    pair.caught_up(topic)

    def told() -> dict[str, int]:
        rows = pair.mirror.status("--partitions")
        return {each["partition"]: each["lag"] for each in rows if each["flow"] == "A->B"}

    wanted = {f"{topic}-{each}" for each in range(PARTITIONS)}
    eventually(
        lambda: wanted <= {name for name, lag in told().items() if lag == 0}, "partitions are told", 60
    )
    flows = {each["flow"]: each for each in pair.mirror.status()}
    assert flows["A->B"]["state"] == flows["B->A"]["state"] == "running"
    with urllib.request.urlopen(f"http://127.0.0.1:{pair.mirror.metrics_port}/metrics") as answer:
        text = answer.read().decode()
    assert 'connector="A->B/MirrorSourceConnector"' in text
    samples = [line.rpartition(" ")[0] for line in text.splitlines() if line and line[0] != "#"]
    assert len(samples) == len(set(samples))
    assert "unknown settings are ignored keys=unknown.key" in pair.mirror.log()


@pytest.mark.long
def test_copies_share_the_tasks_and_a_killed_one_is_replaced(pair: Pair) -> None:
    topics = [pair.topic() for _ in range(3)]
    with MirrorProcess.start(pair.mirror.file) as second:

        def workers() -> set[str]:
            url = f"{second.url}/A/B/connectors/MirrorSourceConnector/status"
            with urllib.request.urlopen(url) as answer:
                return {each["worker_id"] for each in json.load(answer)["tasks"]}

        eventually(lambda: len(workers()) == 2, "both copies have a task", 60)
        second.server.kill()
        for topic in topics:
            write(pair.at_a, topic, pair.dice, 200, PARTITIONS)
        for topic in topics:
            pair.caught_up(topic)
