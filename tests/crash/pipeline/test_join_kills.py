"""A stream joined with tables, killed again and again while input comes: no record misses an older row."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
from pathlib import Path

import pytest

from ottla.client.cluster import KafkaCluster
from support.pipeline.joined_streams import Joined, wait_until_done
from support.pipeline.pipeline_kills import kill_all
from support.servers.cluster import Cluster
from support.servers.processes import descendants, wait_until_gone

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3_000)]

ROUND_MS = 6_000
QUIET_SECONDS = 180.0


@pytest.mark.parametrize("seed", range(3))
def test_joins_hold_over_kills_with_a_backlog_and_live(
    cluster: Cluster, unique_name: str, tmp_path: Path, seed: int
) -> None:
    rolls = random.Random(seed)
    joined = Joined(KafkaCluster(cluster.bootstrap), unique_name, rolls, late_rows=False)
    joined.make_topics()
    limit = rolls.choice((40, 300, 1_000_000))
    joined.produce(joined.draw(keys=25, rows=100, records=300, span_ms=ROUND_MS))
    for number in range(5):
        with joined.running(tmp_path / "app", batch_records=limit, grace_ms=2 * ROUND_MS) as process:
            assert process.stdout is not None
            if number:  # the first kill may come at any time, the first of a start too
                assert process.stdout.readline() == "started\n", (tmp_path / "app/output.log").read_text()
            joined.produce(joined.draw(keys=25, rows=40, records=150, span_ms=ROUND_MS))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rolls.uniform(0, 15))
            assert process.poll() is None, (tmp_path / "app/output.log").read_text()[-3_000:]
            if number % 2:
                kill_all(process)
            else:
                family = descendants(process.pid)
                process.send_signal(signal.SIGKILL)
                process.wait()
                assert not wait_until_gone(family), "the JVM outlives its driver"
    with joined.running(tmp_path / "app", batch_records=limit, grace_ms=2 * ROUND_MS):
        done = wait_until_done(joined, QUIET_SECONDS)
        print(f"all came out: {done};", (tmp_path / "app/output.log").read_text()[-6_000:])

    joined.check(in_order=False)
