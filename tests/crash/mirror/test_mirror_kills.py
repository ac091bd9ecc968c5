"""kill -9 of the mirror and of the brokers on both sides, at random moments: each record is copied once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from support.mirror.mirrors import CODECS, TIMEOUT_S, Mirror, content, make_topic, until
from support.servers.ottla_broker import OttlaBroker

PARTITIONS = 3
LONGEST_LIFE_S = 1.2


class Writer(threading.Thread):
    """Writes numbered records to the source until it is told to stop; some in transactions, some aborted."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.acknowledged: set[bytes] = set()
        self.aborted: set[bytes] = set()
        self._source = bootstrap
        self._topic = topic
        self._rng = random.Random(seed)
        self._ends = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._ends.is_set():
            count = self._rng.randint(1, 200)
            values = [b"%d" % each for each in range(number, number + count)]
            number += count
            transactional = self._rng.random() < 0.5
            aborts = transactional and self._rng.random() < 0.3
            try:
                self._write(values, transactional, aborts)
            except KafkaException:
                continue  # whether they were written nobody knows: they are in both places or in none
            (self.aborted if aborts else self.acknowledged).update(values)

    def _write(self, values: list[bytes], transactional: bool, aborts: bool) -> None:
        settings = {
            "bootstrap.servers": self._source,
            "enable.idempotence": "true",
            "compression.type": self._rng.choice(CODECS),
            "log_level": 0,
        }
        if transactional:
            settings["transactional.id"] = f"writer-{self._rng.getrandbits(64):x}"
        producer = Producer(settings)
        if transactional:
            producer.init_transactions(TIMEOUT_S)
            producer.begin_transaction()
        for value in values:
            producer.produce(self._topic, value, partition=self._rng.randrange(PARTITIONS))
        if producer.flush(TIMEOUT_S):
            raise KafkaException("not written")
        if aborts:
            producer.abort_transaction(TIMEOUT_S)
        elif transactional:
            producer.commit_transaction(TIMEOUT_S)

    def end(self) -> None:
        """Stop after the present records."""
        self._ends.set()
        self.join(TIMEOUT_S * 3)
        assert not self.is_alive()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exactly_once", "kills"),
    [
        pytest.param(True, 4),
        pytest.param(True, 50, marks=[pytest.mark.long, pytest.mark.timeout(900)]),
        pytest.param(False, 20, marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
def test_kills_on_both_sides_lose_nothing_and_double_nothing(
    tmp_path: Path, exactly_once: bool, kills: int
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    with ExitStack() as stack:
        source = stack.enter_context(OttlaBroker.start(tmp_path / "source"))
        target = stack.enter_context(OttlaBroker.start(tmp_path / "target"))
        make_topic(source.bootstrap, "orders", PARTITIONS)
        writer = Writer(source.bootstrap, "orders", seed)
        writer.start()
        mirror = Mirror(
            source.bootstrap,
            target.bootstrap,
            tmp_path,
            exactly_once=exactly_once,
            worker={"offset.flush.interval.ms": "300"},
        )
        stack.callback(mirror.close)
        mirror.begin()
        killed: Counter[str] = Counter()
        for kill in range(kills):
            time.sleep(rng.random() * LONGEST_LIFE_S)
            victim = (
                ("mirror", "source", "target")[kill % 3]
                if kill < 3
                else rng.choice(["mirror", "mirror", "source", "target"])
            )
            killed[victim] += 1
            if victim == "mirror":
                assert mirror.host is not None
                mirror.host.kill()
                mirror.task = None
                mirror.begin()
            else:
                broker = source if victim == "source" else target
                broker.kill()
                time.sleep(rng.random() * 0.5)
                broker.restart()
                mirror.revive()
        writer.end()
        assert writer.acknowledged
        until(
            lambda: len(content(source.bootstrap, "orders")) >= len(writer.acknowledged), "the source has all"
        )
        wanted = content(source.bootstrap, "orders")
        values = Counter(each.value for each in wanted)
        assert not writer.acknowledged - set(values)
        assert not writer.aborted & set(values)

        def missing() -> int:
            mirror.revive()
            return sum(
                (values - Counter(each.value for each in content(target.bootstrap, "a.orders"))).values()
            )

        until(lambda: not missing(), "all are copied", 2 * TIMEOUT_S)
        found = content(target.bootstrap, "a.orders")
        print(killed, len(wanted), len(found))
        if exactly_once:
            assert found == wanted
        else:
            assert set(found) == set(wanted)
