"""Threads for blocking calls: as many as allowed, each call to its end, and none that holds up a process."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import pytest

from ottla.rest.daemon_threads import DaemonThreads

TIMEOUT_S = 20


def test_calls_run_side_by_side_up_to_the_count_and_the_others_wait() -> None:
    threads = DaemonThreads(3, "test")
    together = threading.Barrier(3)
    running = [threads.submit(together.wait, TIMEOUT_S) for _ in range(6)]
    assert sorted(future.result(TIMEOUT_S) for future in running) == [0, 0, 1, 1, 2, 2]
    threads.shutdown()


def test_results_and_exceptions_come_back() -> None:
    threads = DaemonThreads(1, "test")
    assert threads.submit(int, "7").result(TIMEOUT_S) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        threads.submit(int, "x").result(TIMEOUT_S)
    assert threads.submit(sorted, [2, 1], reverse=True).result(TIMEOUT_S) == [2, 1]
    threads.shutdown()


def test_a_shutdown_ends_idle_threads_and_cancels_calls_that_have_not_begun() -> None:
    threads = DaemonThreads(1, "ending")
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return go_on.wait(TIMEOUT_S)

    running = threads.submit(wait)
    assert begun.wait(TIMEOUT_S)
    waiting = threads.submit(int)
    threads.shutdown()
    with pytest.raises(CancelledError):
        waiting.result(TIMEOUT_S)
    with pytest.raises(RuntimeError, match="ending"):
        threads.submit(int)
    go_on.set()
    assert running.result(TIMEOUT_S)
    for thread in threading.enumerate():
        if thread.name.startswith("ending"):
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()


def test_a_process_ends_although_a_call_does_not() -> None:
    program = (
        "import threading; from ottla.rest.daemon_threads import DaemonThreads; begun = threading.Event()\n"
        "DaemonThreads(1, 'x').submit(lambda: (begun.set(), threading.Event().wait())); begun.wait()"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=TIMEOUT_S, check=False).returncode == 0
