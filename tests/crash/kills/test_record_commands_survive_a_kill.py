"""`ottla produce` and `ottla consume` go on over a broker that is killed: each record once, and in order."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from support.clients.confluent import create_topic, eventually
from support.clients.record_commands import consumed, started
from support.servers.ottla_broker import OttlaBroker

RECORDS = 60_000
KILLS = 3


@pytest.mark.slow
def test_every_line_is_written_once_and_in_order_over_kills(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        topic = create_topic(broker.bootstrap, "numbers")
        following = started(broker.bootstrap, "consume", topic)
        writing = started(
            broker.bootstrap, "produce", topic, "-q", "--batch-bytes", "4000", stdin=subprocess.PIPE
        )
        read: list[bytes] = []
        reading = threading.Thread(target=lambda: read.extend(following.stdout or ()))
        reading.start()
        try:
            assert writing.stdin is not None
            for part in range(KILLS + 1):
                numbers = range(part * RECORDS // (KILLS + 1), (part + 1) * RECORDS // (KILLS + 1))
                writing.stdin.write(b"".join(b"%d\n" % number for number in numbers))
                writing.stdin.flush()
                if part < KILLS:
                    eventually(lambda before=numbers.start: len(read) > before, "some of them are read")
                    broker.kill()
                    broker.restart()
            out, err = writing.communicate(timeout=60)
            assert (writing.returncode, out, err) == (0, b"%d\n" % RECORDS, b"")
            expected = [b"%d\n" % number for number in range(RECORDS)]
            assert consumed(broker.bootstrap, topic).splitlines(keepends=True) == expected
            eventually(lambda: len(read) >= RECORDS, "the follower has all")
            assert read == expected
        finally:
            writing.kill()
            writing.wait()
            following.kill()
            following.wait()
            reading.join()


@pytest.mark.slow
def test_a_broker_that_stays_away_ends_the_command_with_a_clear_error(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        topic = create_topic(broker.bootstrap, "numbers")
        words = ("produce", topic, "--delivery-timeout-ms", "1500")
        writing = started(broker.bootstrap, *words, stdin=subprocess.PIPE)
        try:
            assert writing.stdin is not None
            writing.stdin.write(b"a\n")
            writing.stdin.flush()
            eventually(lambda: consumed(broker.bootstrap, topic) == b"a\n", "the first is written")
            broker.kill()
            _, err = writing.communicate(b"b\n", timeout=60)
            assert writing.returncode == 1
            assert b"not written within 1500 ms" in err
            assert err.endswith(b"; 1 record was written\n")
        finally:
            writing.kill()
            writing.wait()
