"""The ten commands of docs/connect.md, run in the page's order on free ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.servers.cluster import ServerProcess, free_port

PAGE = Path(__file__).parents[2] / "docs" / "connect.md"
TIMEOUT_S = 120

pytestmark = [pytest.mark.slow, pytest.mark.long]


def blocks() -> Iterator[str]:
    """The indented blocks of the section with the commands."""
    section = PAGE.read_text(encoding="utf-8").partition("## Ten commands\n")[2].partition("\n## ")[0]
    for found in re.finditer(r"(?m)(?:^    .*\n|^\n(?=    ))+", section):
        yield textwrap.dedent(found[0]).strip()


def test_the_ten_commands_do_what_the_page_says(tmp_path: Path) -> None:
    broker, worker = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    tools = tmp_path / "bin"
    tools.mkdir()
    program = tools / "ottla"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "OTTLA_BOOTSTRAP": broker,
        "OTTLA_CONNECT_URL": f"http://{worker}",
    }
    # The page's ports are those that one has on a machine of one's own.
    at_free_ports = {
        "ottla broker --data ./data": f"ottla broker --data ./data --listen {broker}",
        "ottla connect --bootstrap 127.0.0.1:9092": f"ottla connect --bootstrap {broker} --listen {worker}",
    }
    told = []
    with ExitStack() as stack:
        for block in blocks():
            script = block
            for usual, free in at_free_ports.items():
                script = script.replace(usual, free)
            foreground, *rest = re.split(r"(?m)^(ottla .*) &$", script)
            told.append(shell(foreground, tmp_path, environment))
            for command, behind in zip(rest[::2], rest[1::2], strict=True):
                log_path = tmp_path / f"{len(told)}-{command.split()[1]}.log"
                words = ["/bin/sh", "-c", f"cd '{tmp_path}' && exec {command}"]
                server = ServerProcess(words, " ready", log_path, environment=environment)
                stack.callback(server.stop)
                server.start()
                told.append(shell(behind, tmp_path, environment))
    whole = "".join(told)
    assert "connector lines-in: created" in whole and "connector lines-out: created" in whole
    assert re.search(r"(?m)^lines-in +source +RUNNING +1 running +FileStreamSourceConnector$", whole)
    assert "first\nsecond\nfirst\nsecond\n" in whole  # the topic, and the file
    assert "filename=in.txt" in whole and "position=13" in whole
    assert re.search(r"(?m)^kafka_\w+=\w+, kafka_\w+=\w+ +kafka_offset=2$", whole)
    assert "  - file=out.txt\n  + file=copy.txt\n" in whole
    assert whole.count("connector lines-out: changed") == 2 and "(not done: --dry-run)" in whole
    assert "\nthird\n" in whole
    assert "connector lines-in: deleted" in whole
    assert told[-1].splitlines()[-1] == "lines-out"
    assert (tmp_path / "out.txt").read_text() == "first\nsecond\n"
    assert (tmp_path / "copy.txt").read_text() == "third\nfirst\nsecond\nthird\n"


def shell(script: str, directory: Path, environment: dict[str, str]) -> str:
    """The output of the lines; none of them may fail."""
    if not script.strip():
        return ""
    done = subprocess.run(
        ["/bin/bash", "-ec", script],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, (script, done.stdout, done.stderr)
    return done.stdout
