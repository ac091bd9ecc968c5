"""docs/security.md: its commands are run as they stand, but for the port."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from support.servers.cluster import ServerProcess, free_port

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
TIMEOUT_S = 60


def commands_under(heading: str) -> list[str]:
    """The lines of the first block of code below a heading."""
    lines = iter(PAGE.read_text().partition(f"\n{heading}\n")[2].splitlines())
    block: list[str] = []
    for line in lines:
        if line.startswith("    "):
            block.append(line.strip())
        elif block:
            break
    return block


def test_the_commands_for_trying_out_tls(tmp_path: Path) -> None:
    port = free_port()
    lines = [each.replace("localhost:9093", f"localhost:{port}") for each in commands_under("## TLS")]
    (broker,) = [each for each in lines if each.startswith("ottla broker")]
    before, after = lines[: lines.index(broker)], lines[lines.index(broker) + 1 :]

    def run(line: str) -> str:
        line = line.replace("ottla ", f"{shlex.quote(sys.executable)} -m ottla ")
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return done.stdout

    for line in before:
        run(line)
    command = ["sh", "-c", f"cd {tmp_path} && exec {sys.executable} -m {broker}"]
    server = ServerProcess(command, "ottla broker ready", tmp_path / "broker.log")
    server.start()
    try:
        output = "".join(run(line) for line in after)
    finally:
        server.stop()
    assert "hello\n" in output
    assert "User:CN=alice" in output
