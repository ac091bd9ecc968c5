"""The process of a Java worker: its files, its output, its end; a shell script stands for Java."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.config.java_properties import parse_properties
from ottla.connect.java import process as process_module
from ottla.connect.java.errors import JavaConnectError
from ottla.connect.java.process import MAX_LINE_BYTES, JavaWorkerProcess
from ottla.connect.java.settings import JavaOptions, java_options
from support.servers.processes import descendants, wait_until_gone

LISTENS = 'echo "INFO now REST server listening at http://127.0.0.1:7001/, advertising URL x (RestServer)"'


def options() -> JavaOptions:
    made = java_options({"bootstrap.servers": "127.0.0.1:1", "plugin.path": "/p", "ottla.java.heap": "64m"})
    assert made is not None
    return made


def script(directory: Path, body: str) -> Path:
    path = directory / "java"
    path.write_text(f'#!/bin/sh\nfor last; do :; done\ncp "$last" {directory}/seen\n{body}\n')
    path.chmod(0o755)
    return path


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(bounded())


def test_it_is_given_its_file_and_says_where_it_listens(tmp_path: Path) -> None:
    async def test() -> None:
        java = script(tmp_path, f'echo "$@" > {tmp_path}/words; {LISTENS}; exec sleep 60')
        process = await JavaWorkerProcess.start(options(), java, [Path("a.jar"), Path("b.jar")], print)
        assert await process.address() == "http://127.0.0.1:7001"
        words = (tmp_path / "words").read_text()
        assert "-Xmx64m" in words and f"-cp a.jar{os.pathsep}b.jar" in words
        file = Path(words.split()[-1])
        assert file.parent.stat().st_mode & 0o077 == 0  # it may hold passwords
        given = {name: each.value for name, each in parse_properties((tmp_path / "seen").read_text()).items()}
        assert given == dict(options().properties)
        await process.stop()
        assert await process.ended() == -signal.SIGTERM
        assert not file.parent.exists()

    run(test)


def test_its_lines_are_handed_over_with_their_connectors(tmp_path: Path) -> None:
    lines: list[tuple[str | None, str]] = []

    async def test() -> None:
        body = textwrap.dedent(
            f"""
            {LISTENS}
            echo "[orders|task-0] ERROR now it failed (Worker)"
            echo "java.lang.Exception: no"
            printf '\\tat x.y\\n'
            echo "INFO now other (Herder)"
            echo "[lines] WARN now stopped (X)"
            head -c {MAX_LINE_BYTES * 2} /dev/zero | tr '\\0' x
            exit 3
            """
        )
        process = await JavaWorkerProcess.start(
            options(), script(tmp_path, body), [], lambda connector, line: lines.append((connector, line))
        )
        assert await process.ended() == 3
        assert await process.failure() == "the Java worker ended with 3: java.lang.Exception: no"
        await process.stop()

    run(test)
    assert [connector for connector, _ in lines[:6]] == [None, "orders", "orders", "orders", None, "lines"]
    assert all(len(line) <= MAX_LINE_BYTES for _, line in lines)


def test_one_that_ends_before_it_listens_is_told_with_its_problem(tmp_path: Path) -> None:
    async def test() -> None:
        body = 'echo "ERROR now Stopping due to error (X)"; echo "ConfigException: bad key.converter"; exit 1'
        process = await JavaWorkerProcess.start(options(), script(tmp_path, body), [], lambda *_: None)
        with pytest.raises(JavaConnectError, match=r"ended with 1: ConfigException: bad key\.converter"):
            await process.address()
        await process.stop()

    run(test)


def test_one_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    async def test() -> None:
        body = f"trap '' TERM; {LISTENS}; while :; do sleep 0.01; done"
        process = await JavaWorkerProcess.start(options(), script(tmp_path, body), [], lambda *_: None)
        await process.address()
        left = descendants(process.pid)
        await process.stop(0.05)
        assert await process.ended() == -signal.SIGKILL
        assert not wait_until_gone(left, 10)  # the shell beside it has ended as well

    run(test)


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell holds the pipe")
def test_it_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    java = script(tmp_path, f"{LISTENS}; exec sleep 60")
    program = textwrap.dedent(
        f"""
        import asyncio
        from pathlib import Path
        from ottla.connect.java.process import JavaWorkerProcess
        from ottla.connect.java.settings import java_options

        async def main():
            options = java_options({{"bootstrap.servers": "127.0.0.1:1", "plugin.path": "/p"}})
            process = await JavaWorkerProcess.start(options, Path({str(java)!r}), [], lambda *_: None)
            await process.address()
            print("ready", flush=True)
            await process.ended()

        asyncio.run(main())
        """
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as starter:
        try:
            assert starter.stdout is not None and starter.stdout.readline() == "ready\n"
            started = {}
            while not any("sleep 60" in command for command in started.values()):
                started = descendants(starter.pid)
        finally:
            starter.kill()
    assert not wait_until_gone(started, 10)


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell holds the pipe")
def test_the_id_of_one_that_has_ended_is_not_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may have that id by then."""
    killed = tmp_path / "killed"
    noting = process_module._TIED.replace("kill -9 $$", f"touch {killed}")
    monkeypatch.setattr(process_module, "_TIED", noting)

    async def test(java: Path, in_order: bool) -> None:
        process = await JavaWorkerProcess.start(options(), java, [], lambda *_: None)
        beside: dict[int, str] = {}
        while not beside:
            beside = descendants(process.pid)
        if not in_order:
            assert process._held is not None
            os.close(process._held)
            process._held = None
        await process.stop(0)
        assert not wait_until_gone(beside, 10)

    run(lambda: test(script(tmp_path, "exec sleep 60"), in_order=True))
    assert not killed.exists()
    run(lambda: test(script(tmp_path, "exec sleep 60"), in_order=False))
    assert killed.exists()
