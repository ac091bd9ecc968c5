"""Failover and failback under load, with kills of mirrors and brokers: nothing lost, little read again."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.clients.confluent import admin_client, create_topic, eventually
from support.mirror.movers import Mover, commit, read_log, until_equal, write
from support.mirror.processes import MirrorProcess, mm2_file
from support.servers.ottla_broker import OttlaBroker

PARTITIONS = 3
KILLS = 10


@contextmanager
def _killing(
    dice: random.Random, mirrors: list[MirrorProcess], brokers: list[OttlaBroker]
) -> Iterator[threading.Event]:
    """Kill copies of the mirror and brokers, and start them again, until the block ends."""
    enough, over = threading.Event(), threading.Event()

    def kill() -> None:
        for _ in range(KILLS):
            victim = dice.choice([*mirrors, *brokers])
            victim.server.kill()
            if over.wait(dice.uniform(0, 1)):
                break
            victim.server.start()
            if over.wait(dice.uniform(0.5, 3)):
                break
        for each in (*brokers, *mirrors):
            if not each.server.running:
                each.server.start()
        enough.set()

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield enough
    finally:
        over.set()
        thread.join(120)


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_failover_and_failback_with_kills(tmp_path: Path, delivery: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    exact = delivery == "exactly-once"
    with ExitStack() as stack:
        a = stack.enter_context(OttlaBroker.start(tmp_path / "a"))
        b = stack.enter_context(OttlaBroker.start(tmp_path / "b"))
        at = {"A": {"bootstrap.servers": a.bootstrap}, "B": {"bootstrap.servers": b.bootstrap}}
        support = "enabled" if exact else "disabled"
        flows = {
            "A->B.enabled": "true",
            "B->A.enabled": "true",
            "tasks.max": "2",
            "A.exactly.once.source.support": support,
            "B.exactly.once.source.support": support,
        }
        file = mm2_file(tmp_path / "mm2.properties", {"A": a.bootstrap, "B": b.bootstrap}, flows)
        mirrors = [stack.enter_context(MirrorProcess.start(file)) for _ in range(2)]
        plain = create_topic(a.bootstrap, f"plain-{dice.getrandbits(32):x}", PARTITIONS)
        compacted = create_topic(
            a.bootstrap,
            f"compacted-{dice.getrandbits(32):x}",
            PARTITIONS,
            {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"},
        )
        topics = (plain, compacted)
        with _killing(dice, mirrors, [b]) as enough:
            while not enough.is_set():
                write(at["A"], plain, dice, dice.randint(100, 1_500), PARTITIONS)
                write(at["A"], compacted, dice, dice.randint(100, 1_000), PARTITIONS, keys=50)
        for topic in topics:
            eventually(lambda t=topic: _has(b, f"A.{t}"), f"A.{topic} is there", 60)
        until_equal(
            lambda: _values(at["A"], plain, exact),
            lambda: _values(at["B"], f"A.{plain}", exact),
            "B has A's records",
        )
        log = read_log(at["A"], plain)
        movers = [Mover.begin(at["A"], f"g{n}", plain, log, dice) for n in range(5)]
        # A is gone: the groups go on at B, from offsets that were written there before
        remote = f"A.{plain}"
        for mover in movers:
            offsets = mover.moved(at["B"], remote, lambda: read_log(at["B"], remote))
            after = mover.read_on(read_log(at["B"], remote), offsets, dice)
            commit(at["B"], mover.group, remote, after)
        # with kills of all sides they come home
        with _killing(dice, mirrors, [a, b]) as enough:
            assert enough.wait(300)
        for mover in movers:
            mover.moved(at["A"], plain, lambda: read_log(at["A"], plain))
        # compacted: what is left of each key is on both sides, and a group moves over holes
        log = read_log(at["A"], compacted)
        mover = Mover.begin(at["A"], "over-holes", compacted, log, dice)
        remote = f"A.{compacted}"
        mover.moved(at["B"], remote, lambda: read_log(at["B"], remote), compacted=True)


def _values(access: dict[str, str], topic: str, exact: bool) -> object:
    """The values of each partition, in order, or each once where records may be doubled."""
    found = read_log(access, topic).values()
    return found if exact else {each: list(dict.fromkeys(values)) for each, values in found.items()}


def _has(broker: OttlaBroker, topic: str) -> bool:
    return topic in admin_client(broker.bootstrap).list_topics(timeout=20).topics
