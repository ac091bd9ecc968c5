"""`ottla mirror` beside Java's: RemoteClusterUtils reads ours, MirrorMaker 2 runs the other way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.clients.confluent import admin_client, create_topic, eventually
from support.java.mirror_oracle import translated_offsets
from support.mirror.movers import Mover, committed, names_of, read_log, until_equal, write
from support.mirror.processes import MirrorProcess, mirror_maker_2, mm2_file
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(900)]

PARTITIONS = 2
COMMITTED = {f"{alias}.consumer.isolation.level": "read_committed" for alias in "AB"}
"""MirrorMaker 2 copies aborted records, too, if it is not told otherwise."""
KINDS = {"ottla": OttlaBroker.start, "apache-kafka": ApacheKafka.start}


@dataclass(slots=True)
class Clusters:
    """Two clusters and dice."""

    a: OttlaBroker | ApacheKafka
    b: OttlaBroker | ApacheKafka
    dice: random.Random

    @property
    def at(self) -> dict[str, dict[str, str]]:
        return {
            "A": {"bootstrap.servers": self.a.bootstrap},
            "B": {"bootstrap.servers": self.b.bootstrap},
        }

    @property
    def servers(self) -> dict[str, str]:
        return {"A": self.a.bootstrap, "B": self.b.bootstrap}

    def copied(self, source: str, target: str, topic: str) -> None:
        """Wait until the target has the source's records."""
        eventually(
            lambda: f"{source}.{topic}" in self.topics(target), f"{source}.{topic} is in {target}", 240
        )
        until_equal(
            lambda: read_log(self.at[source], topic).values(),
            lambda: read_log(self.at[target], f"{source}.{topic}").values(),
            f"{topic} is copied from {source} to {target}",
        )

    def topics(self, alias: str) -> list[str]:
        """The topics of a cluster."""
        return list(admin_client(self.servers[alias]).list_topics(timeout=20).topics)

    def filled(self, alias: str, transactions: bool = True) -> str:
        """A new topic with records."""
        name = create_topic(self.servers[alias], f"orders-{self.dice.getrandbits(32):x}", PARTITIONS)
        write(self.at[alias], name, self.dice, 2_000, PARTITIONS, transactions=transactions)
        return name


@pytest.fixture(
    params=[
        pytest.param(("ottla", "ottla"), id="ottla-ottla"),
        pytest.param(("apache-kafka", "ottla"), id="kafka-ottla"),
        pytest.param(("ottla", "apache-kafka"), id="ottla-kafka"),
    ]
)
def clusters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clusters]:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    first, second = request.param
    with ExitStack() as stack:
        a = stack.enter_context(KINDS[first](tmp_path / "a"))
        b = stack.enter_context(KINDS[second](tmp_path / "b"))
        yield Clusters(a, b, random.Random(seed))


def test_java_reads_our_checkpoints(clusters: Clusters, tmp_path: Path) -> None:
    topic = clusters.filled("A")
    log = read_log(clusters.at["A"], topic)
    mover = Mover.begin(clusters.at["A"], "movers ü", topic, log, clusters.dice)
    file = mm2_file(tmp_path / "mm2.properties", clusters.servers, {"A->B.enabled": "true"})
    with MirrorProcess.start(file):
        clusters.copied("A", "B", topic)
        remote = f"A.{topic}"
        mover.moved(clusters.at["B"], remote, lambda: read_log(clusters.at["B"], remote))

        def ours() -> dict[tuple[str, int], int]:
            found = committed(clusters.at["B"], "movers ü", remote, PARTITIONS)
            return {(remote, each): offset for each, offset in found.items() if offset >= 0}

        def java() -> dict[tuple[str, int], int]:
            return translated_offsets(clusters.servers["B"], "A", "movers ü", tmp_path / "classes")

        until_equal(ours, java, "Java translates as the group's offsets say")


@pytest.mark.parametrize("java_way", ["A->B", "B->A"])
def test_mirror_maker_2_one_way_and_ours_the_other(clusters: Clusters, tmp_path: Path, java_way: str) -> None:
    our_way = "B->A" if java_way == "A->B" else "A->B"
    their_target, our_target = java_way[-1], our_way[-1]
    theirs = mm2_file(
        tmp_path / "java.properties",
        clusters.servers,
        {f"{java_way}.enabled": "true", f"{our_way}.enabled": "false", **COMMITTED},
    )
    ours = mm2_file(tmp_path / "ours.properties", clusters.servers, {f"{our_way}.enabled": "true"})
    topics = {alias: clusters.filled(alias) for alias in clusters.servers}
    with (
        mirror_maker_2(theirs, "--clusters", their_target),
        MirrorProcess.start(ours, "--clusters", our_target),
    ):
        for source, target in (("A", "B"), ("B", "A")):
            clusters.copied(source, target, topics[source])
            write(clusters.at[source], topics[source], clusters.dice, 500, PARTITIONS)
            clusters.copied(source, target, topics[source])
            log = read_log(clusters.at[source], topics[source])
            mover = Mover.begin(clusters.at[source], f"g-{source}", topics[source], log, clusters.dice)
            remote = f"{source}.{topics[source]}"
            # MirrorMaker 2 has few syncs of what lies far behind
            most = 10**9 if target == their_target else 1_000
            mover.moved(
                clusters.at[target], remote, lambda t=target, r=remote: read_log(clusters.at[t], r), most
            )
        for alias in clusters.servers:
            names = names_of(clusters.topics(alias))
            other = "B" if alias == "A" else "A"
            copies = {each for each in names if each.startswith(f"{other}.")}
            assert copies <= {f"{other}.{topics[other]}", f"{other}.heartbeats"}, names
            assert f"{other}.{topics[other]}" in copies
            assert not any(each.startswith(f"{alias}.") for each in names), names


def test_ours_goes_on_where_mirror_maker_2_stopped(clusters: Clusters, tmp_path: Path) -> None:
    file = mm2_file(tmp_path / "mm2.properties", clusters.servers, {"A->B.enabled": "true"})
    topic = clusters.filled("A", transactions=False)
    with mirror_maker_2(file) as java:
        clusters.copied("A", "B", topic)
        # its offsets are written now and then; a clean end writes them too
        java.process.terminate()
        java.process.wait(60)
    write(clusters.at["A"], topic, clusters.dice, 500, PARTITIONS, transactions=False)
    with MirrorProcess.start(file):
        clusters.copied("A", "B", topic)
