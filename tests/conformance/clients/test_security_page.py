"""docs/security.md: its files and commands are used as they stand, but for the ports."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.broker.config import BrokerConfig
from support.servers.cluster import ServerProcess, free_port

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
COMMAND_TIMEOUT_S = 60


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


def run(line: str, directory: Path) -> str:
    """What a line of the page writes."""
    line = line.replace("ottla ", f"{shlex.quote(sys.executable)} -m ottla ")
    done = subprocess.run(
        line,
        shell=True,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout


@contextmanager
def broker(line: str, directory: Path) -> Iterator[str]:
    """The broker that a line of the page starts; the line in which it says that it is ready."""
    command = ["sh", "-c", f"cd {directory} && exec {sys.executable} -m {line}"]
    server = ServerProcess(command, "ottla broker ready", directory / "broker.log")
    server.start()
    try:
        yield server.ready_line
    finally:
        server.stop()


def test_a_secured_cluster_of_three(tmp_path: Path) -> None:
    (certificates,), properties, client, (start, *lines) = blocks_under("## A secured cluster of three")
    assert len([certificates, start, *lines]) == 10
    run(certificates, tmp_path)
    with (tmp_path / "certs" / "broker.properties").open("a") as file:
        file.write("\n".join(properties).replace("localhost:9092", "localhost:0"))
    with broker(start, tmp_path) as ready_line:
        bootstrap = re.findall(r"localhost:\d+", ready_line)
        assert len(bootstrap) == 3
        admin = "\n".join(client).replace("localhost:9092", ",".join(bootstrap))
        (tmp_path / "admin.properties").write_text(admin)
        (tmp_path / "alice.properties").write_text(admin.replace("admin", "alice"))
        output = [run(line, tmp_path) for line in lines]
        assert output[0].count("voter") == 2
        assert output[-1] == "hello\n"
        listed = run("ottla topic list --quiet --command-config alice.properties", tmp_path)
        assert listed == "orders\n"
        run("ottla acl delete --principal alice --yes --command-config admin.properties", tmp_path)
        assert run("ottla topic list --quiet --command-config alice.properties", tmp_path) == ""
    assert "secret" not in (tmp_path / "broker.log").read_text()


def test_the_commands_for_trying_out_tls(tmp_path: Path) -> None:
    place = f"localhost:{free_port()}"
    lines = [each.replace("localhost:9093", place) for each in blocks_under("## TLS")[0]]
    certificates, start, *others = lines
    run(certificates, tmp_path)
    with broker(start, tmp_path):
        output = "".join(run(line, tmp_path) for line in others)
    assert "hello\n" in output
    assert "User:CN=alice" in output


def test_the_commands_for_trying_out_logins(tmp_path: Path) -> None:
    place = f"localhost:{free_port()}"
    properties, client, lines = blocks_under("## Logins (SASL)")
    (tmp_path / "broker.properties").write_text("\n".join(properties).replace("localhost:9092", place))
    (tmp_path / "admin.properties").write_text("\n".join(client))
    start, *others = [line.replace("localhost:9092", place) for line in lines]
    with broker(start, tmp_path):
        output = [run(line, tmp_path) for line in others]
    assert "User:admin" in output[-2]
    assert output[-1] == "hello\n"
    assert "secret" not in (tmp_path / "broker.log").read_text()


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


def test_the_lines_about_acls_and_quotas(tmp_path: Path) -> None:
    (acls,), (quotas,) = blocks_under("## Who may do what (ACLs)"), blocks_under("## Quotas")
    place = f"localhost:{free_port()}"
    start = (
        f"ottla broker --data data --listen {place} --set super.users=User:ANONYMOUS --set "
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    )
    with broker(start, tmp_path):
        output = [run(f"{line} --bootstrap {place}", tmp_path) for line in acls + quotas]
    assert "User:app" in output[2] and "User:bob" in output[2]
    assert "10.0.0.7" in output[3]
    assert "alice" in output[-1]
