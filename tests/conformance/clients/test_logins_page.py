"""docs/security.md: the files and commands for trying out logins are used as they stand, but for the port."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from ottla.broker.config import BrokerConfig
from support.servers.cluster import ServerProcess, free_port

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
TIMEOUT_S = 60


def blocks_under(heading: str) -> list[list[str]]:
    """The blocks of code below a heading, up to the next one."""
    blocks: list[list[str]] = [[]]
    for line in PAGE.read_text().partition(f"\n{heading}\n")[2].splitlines():
        if line.startswith("#"):
            break
        if line.startswith("    "):
            blocks[-1].append(line.strip())
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def test_the_commands_for_trying_out_logins(tmp_path: Path) -> None:
    place = f"localhost:{free_port()}"
    properties, client, lines = blocks_under("## Logins (SASL)")
    (tmp_path / "broker.properties").write_text("\n".join(properties).replace("localhost:9092", place))
    (tmp_path / "admin.properties").write_text("\n".join(client))
    broker, *others = [line.replace("localhost:9092", place) for line in lines]

    def run(line: str) -> str:
        line = line.replace("ottla ", f"{shlex.quote(sys.executable)} -m ottla ")
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return done.stdout

    command = ["sh", "-c", f"cd {tmp_path} && exec {sys.executable} -m {broker}"]
    server = ServerProcess(command, "ottla broker ready", tmp_path / "broker.log")
    server.start()
    try:
        output = [run(line) for line in others]
    finally:
        server.stop()
    assert "User:admin" in output[-2]
    assert output[-1] == "hello\n"
    told = (tmp_path / "broker.log").read_text()
    assert "secret" not in told


def test_the_settings_between_nodes_are_settings() -> None:
    (lines,) = blocks_under("### Between nodes")
    settings = dict(line.split("=", 1) for line in lines)
    config = BrokerConfig.from_mapping(
        {
            **settings,
            "listeners": "CLIENTS://localhost:9092,CONTROLLER://localhost:9093",
            "sasl.enabled.mechanisms": "PLAIN",
            "node.id": "1",
            "controller.quorum.voters": "1@localhost:9093,2@localhost:9094",
        }
    )
    assert config.inter_broker_protocol == "SASL_PLAINTEXT"
