"""Recorded histories of clients keep Kafka's promises, with late, repeated and interrupted requests.

Producers of transactions v1 and v2 and one that is only idempotent, their zombies, consumers of both
isolation levels, and transactions that read others' records work on a broker that is restarted, killed and
compacted, while requests get lost and come back later. The checkers of `support.clients.histories` judge the
whole.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from support.clients.histories import (
    Outcome,
    aborted_reads,
    contradicting_markers,
    cycles,
    duplicates,
    lost_writes,
    mixed_transactions,
    stuck_readers,
    torn_transactions,
    values_that_changed,
    wrong_tables,
)
from support.clients.recorded_clients import COMPACTED, PARTITIONS, TRANSACTION_STATE, Producer, World
from support.exploration import examples

PARTITION = st.sampled_from(PARTITIONS)
KEY = st.sampled_from(["a", "b", "c"])
PRODUCER = st.integers(0, 3)


class RecordedHistories(RuleBasedStateMachine):
    """Clients and a broker; every rule is one event."""

    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="histories-"))
        self.runner = asyncio.Runner()
        self.world = World(self.root)
        self.run(self.world.start())
        self.producers = [
            Producer("v1", is_v2=False),
            Producer("v2", is_v2=True),
            Producer("other-v2", is_v2=True),
            Producer(None, is_v2=False),
        ]
        self.zombies: list[Producer] = []
        for producer in self.producers:
            self.run(self.world.begin_anew(producer))

    def run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(doing)

    def ready(self, number: int) -> Producer:
        """The producer, in a state in which a client would go on."""
        producer = self.producers[number]
        if producer.must_begin_anew:
            self.run(self.world.begin_anew(producer))
        elif producer.must_abort:
            self.run(self.world.end(producer, commit=False, lost=False))
            if producer.must_begin_anew or not producer.is_v2:
                self.run(self.world.begin_anew(producer))
        return producer

    # --- producers ------------------------------------------------------------------------------------

    @rule(number=PRODUCER, partition=PARTITION, key=KEY)
    def send(self, number: int, partition: tuple[str, int], key: str) -> None:
        self.run(self.world.send(self.ready(number), partition, key, lost=False))

    @rule(number=PRODUCER, partition=PARTITION, key=KEY)
    def send_what_gets_lost(self, number: int, partition: tuple[str, int], key: str) -> None:
        self.run(self.world.send(self.ready(number), partition, key, lost=True))

    @rule(number=PRODUCER, commit=st.booleans())
    def end(self, number: int, commit: bool) -> None:
        if not self.producers[number].must_begin_anew:
            self.run(self.world.end(self.producers[number], commit=commit, lost=False))

    @rule(number=PRODUCER, commit=st.booleans())
    def end_what_gets_lost(self, number: int, commit: bool) -> None:
        if not self.producers[number].must_begin_anew:
            self.run(self.world.end(self.producers[number], commit=commit, lost=True))

    @rule(number=st.integers(0, 2))
    def a_second_instance_begins(self, number: int) -> None:
        old = self.producers[number]
        self.zombies.append(replace(old, sequences=dict(old.sequences), added=set(old.added)))
        self.run(self.world.begin_anew(old))

    @precondition(lambda self: self.zombies)
    @rule(which=st.integers(0, 9), partition=PARTITION, key=KEY, commit=st.booleans())
    def a_zombie_goes_on(self, which: int, partition: tuple[str, int], key: str, commit: bool) -> None:
        zombie = self.zombies[which % len(self.zombies)]
        if zombie.must_begin_anew:
            return
        self.run(self.world.send(zombie, partition, key, lost=False))
        self.run(self.world.end(zombie, commit=commit, lost=False))

    @precondition(lambda self: self.world.late)
    @rule(which=st.integers(0, 1000))
    def a_request_comes_late(self, which: int) -> None:
        self.run(self.world.deliver(self.world.late[which % len(self.world.late)]))

    @precondition(lambda self: self.world.late)
    @rule(back=st.integers(1, 5))
    def a_request_comes_again(self, back: int) -> None:
        self.run(self.world.deliver(self.world.late[-min(back, len(self.world.late))]))

    @rule(back=st.integers(1, 4), partition=PARTITION)
    def a_marker_comes_again(self, back: int, partition: tuple[str, int]) -> None:
        ended = [
            each
            for each in self.world.history.transactions.values()
            if each.is_v2 and each.outcome is not Outcome.UNKNOWN
        ]
        if ended:
            self.run(self.world.deliver_marker(ended[-min(back, len(ended))], partition))

    # --- consumers ------------------------------------------------------------------------------------

    @rule(partition=PARTITION, committed_only=st.booleans())
    def read(self, partition: tuple[str, int], committed_only: bool) -> None:
        self.run(self.world.read(partition, committed_only=committed_only))

    @rule(number=st.integers(0, 2), source=PARTITION, into=PARTITION, key=KEY)
    def go_on_with_what_was_read(
        self, number: int, source: tuple[str, int], into: tuple[str, int], key: str
    ) -> None:
        producer = self.ready(number)
        self.run(self.world.send(producer, into, key, lost=False))
        if producer.transaction is not None:
            self.run(self.world.read(source, committed_only=True, inside=producer.transaction))

    # --- the broker -----------------------------------------------------------------------------------

    @rule()
    def restart(self) -> None:
        self.run(self.world.restart())

    @rule()
    def kill(self) -> None:
        self.run(self.world.kill())

    @rule(partition=PARTITION)
    def roll(self, partition: tuple[str, int]) -> None:
        self.world.roll(partition)

    @rule(partition=st.sampled_from([(COMPACTED, 0), TRANSACTION_STATE]))
    def compact(self, partition: tuple[str, int]) -> None:
        self.world.compact(partition)

    # --- the verdict ----------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.run(self.judge())
        finally:
            self.run(self.world.stop())
            self.runner.close()
            shutil.rmtree(self.root)

    async def judge(self) -> None:
        world, history = self.world, self.world.history
        for producer in self.producers:
            await world.begin_anew(producer)
        ends = await world.settle()
        final = [await world.read(partition, committed_only=True) for partition in PARTITIONS]
        kept = [poll for poll in final if poll.partition[0] != COMPACTED]
        log = world.entries()
        stays = replace(
            history,
            sends={name: send for name, send in history.sends.items() if send.partition[0] != COMPACTED},
        )
        assert values_that_changed(history) == []
        assert duplicates(history) == []
        assert lost_writes(stays, kept) == []
        assert torn_transactions(stays, kept) == []
        assert aborted_reads(history) == []
        assert cycles(history) == []
        assert mixed_transactions(history, log) == []
        assert contradicting_markers(history, log) == []
        assert stuck_readers(history, ends) == []
        assert wrong_tables(history, final) == []


TestRecordedHistories = RecordedHistories.TestCase
TestRecordedHistories.settings = settings(
    max_examples=examples(6),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
