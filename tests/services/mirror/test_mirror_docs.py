"""The walk of docs/mirror.md, run in the page's order on free ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.servers.cluster import ServerProcess, free_port

PAGE = Path(__file__).parents[3] / "docs" / "mirror.md"
TIMEOUT_S = 120
READY = {"ottla broker": "127.0.0.1:", "ottla mirror": "ottla mirror ready"}


@pytest.mark.long
def test_the_walk_moves_a_topic_and_its_group(tmp_path: Path) -> None:
    section = (
        PAGE.read_text(encoding="utf-8").partition("## Moving to another cluster\n")[2].partition("\n## ")[0]
    )
    blocks = [textwrap.dedent(each[0]) for each in re.finditer(r"(?m)(?:^    .*\n|^\n(?=    ))+", section)]
    old, new, http = free_port(), free_port(), free_port()
    tools = tmp_path / "bin"
    tools.mkdir()
    program = tools / "ottla"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "OTTLA_MIRROR_URL": f"http://127.0.0.1:{http}",
    }
    told = []
    with ExitStack() as stack:
        for block in blocks:
            script = block.replace("127.0.0.1:9092", f"127.0.0.1:{old}")
            script = script.replace("127.0.0.1:9192", f"127.0.0.1:{new}")
            script = script.replace("ottla mirror move", f"ottla mirror --listen 127.0.0.1:{http} move")
            script = script.replace("mirror --listen", "mirror run --listen")
            foreground, *rest = re.split(r"(?m)^(ottla .*) &$", script)
            told.append(_shell(foreground, tmp_path, environment))
            for command, behind in zip(rest[::2], rest[1::2], strict=True):
                ready = next(text for words, text in READY.items() if command.startswith(words))
                words = ["/bin/sh", "-c", f"cd '{tmp_path}' && exec {command}"]
                server = ServerProcess(
                    words, ready, tmp_path / f"{len(told)}-{len(rest)}.log", environment=environment
                )
                stack.callback(server.stop)
                server.start()
                told.append(_shell(behind, tmp_path, environment))
    assert 901 <= int(told[-1]) <= 1001
    whole = "".join(told)
    assert "1000\n" in whole
    assert re.search(r"(?m)^old->new +running +1 +1 +0 .*exactly once", whole), whole


def _shell(script: str, directory: Path, environment: dict[str, str]) -> str:
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
