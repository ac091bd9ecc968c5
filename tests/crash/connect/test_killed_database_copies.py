"""kill -9 of everything between a database and its copy: equal row for row, and each change in the log once.

OTTLA_DRILL_KILLS says how many kills (100 by default), OTTLA_SEED what they are drawn from: a kill falls upon
what runs just then, so two runs of one seed are alike and not the same.
"""

from __future__ import annotations

import faulthandler
import os
import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.connect.cdc.copy_path import CopyPath, Victim, Writers, copy_path
from support.connect.cdc.debezium_history import check_beside_debezium, keep_history
from support.servers.postgresql import postgresql_programs

pytestmark = [pytest.mark.slow, pytest.mark.system("psql", "postgresql")]
KILLS = int(os.environ.get("OTTLA_DRILL_KILLS", "100"))
SEED = int(os.environ.get("OTTLA_SEED") or random.getrandbits(32))


def programs() -> Path:
    """The directory of the server's programs."""
    found = postgresql_programs()
    assert found is not None
    return found


def finish(path: CopyPath, writers: Writers) -> int:
    """End the writers, and check all that has to be true. The number of changes in the topics."""
    writers.stop()
    path.wait_for_all()
    return path.check_history()


def test_a_copy_is_equal_after_kills_of_host_and_database(tmp_path: Path) -> None:
    """The drill in small: three tables, two writers, a kill of the host, and one of the database."""
    with copy_path(programs(), tmp_path, SEED, tables=3) as path, ExitStack() as stack:
        writers = Writers(path, 2, pause_s=0.05)
        stack.callback(writers.stop)
        writers.start()
        path.begin()
        path.wait_until_streaming()
        for victim in path.chance.sample((Victim.HOST, Victim.ORIGIN), 2):
            before = path.written()
            assert path.hit(victim)
            path.wait_for_progress(before)
        assert finish(path, writers) > 0, f"seed {SEED}"


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_copies_are_equal_and_the_log_is_the_history_after_many_kills(tmp_path: Path) -> None:
    faulthandler.cancel_dump_traceback_later()  # which would end the run after a quarter of an hour
    print(f"seed {SEED}")
    with copy_path(programs(), tmp_path, SEED, tables=20) as path, ExitStack() as stack:
        keep_history(path)
        writers = Writers(path, 4, pause_s=0.1)
        stack.callback(writers.stop)
        writers.start()
        path.begin()
        is_streaming = False
        for number in range(KILLS):
            before = path.written()
            victim = path.strike()
            print(f"{number + 1}: {victim.value}", flush=True)
            # the first blows fall upon the copy of the tables; later ones mostly upon what is at work
            if number >= 3 and not is_streaming:
                path.wait_until_streaming()
                is_streaming = True
            elif path.chance.random() < 0.67:
                path.wait_for_progress(before)
        changes = finish(path, writers)
        alike = check_beside_debezium(path, tmp_path)
        assert alike >= changes, f"seed {SEED}"
        counts = ", ".join(f"{count} {victim.value}" for victim, count in sorted(path.blows.items(), key=str))
        print(f"seed {SEED}: {writers.transactions} transactions, {changes} changes in the topics; {counts}")
        print(f"{alike} records of changes, tombstones among them, are Debezium's")
