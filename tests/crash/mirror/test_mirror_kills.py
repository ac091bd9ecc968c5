"""kill -9 of the mirror and of the brokers on both sides, at random moments: each record is copied once."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.mirror.mirrors import TIMEOUT_S, Mirror, content, make_topic, until
from support.mirror.writer import Writer
from support.servers.ottla_broker import OttlaBroker

PARTITIONS = 3
LONGEST_LIFE_S = 1.2


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
        writer = Writer(source.bootstrap, "orders", PARTITIONS, seed)
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
