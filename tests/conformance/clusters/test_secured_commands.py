"""`ottla quorum` and `ottla partition` on an Apache Kafka that wants TLS and a password."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.servers.secured_kafka import SCRAM_HASHES, SecuredKafka, secured_kafka

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(300)]


def ottla(kafka: SecuredKafka, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    config = directory / "client.properties"
    escaped = {name: value.replace("\\", "\\\\") for name, value in kafka.client_options.items()}
    config.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))
    return subprocess.run(
        [
            *(sys.executable, "-m", "ottla", *words),
            *("--bootstrap", kafka.bootstrap, "--command-config", str(config), "--json"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_commands_get_into_a_secured_cluster_with_the_right_password(tmp_path: Path) -> None:
    with secured_kafka(tmp_path) as kafka:
        status = ottla(kafka, tmp_path, "quorum", "status")
        assert (status.returncode, status.stderr) == (0, "")
        (node,) = json.loads(status.stdout)["nodes"]
        assert node["role"] == "leader"
        moves = ottla(kafka, tmp_path, "partition", "list")
        assert (moves.returncode, moves.stdout, moves.stderr) == (0, "[]\n", "")

        refused = ottla(kafka, tmp_path, "partition", "list", "--set", "sasl.password=guessed")
        assert (refused.returncode, refused.stdout) == (1, "")
        (line,) = refused.stderr.splitlines()
        assert line.startswith(f"ottla partition list: {kafka.bootstrap} refuses the user: ")


SCRAM_USER, SCRAM_PASSWORD = "of=scram, with comma", "pass \u00e4 =,"


def test_commands_get_in_by_scram_with_the_right_password_alone(tmp_path: Path) -> None:
    with secured_kafka(tmp_path) as kafka:
        asyncio.run(kafka.add_scram_user(SCRAM_USER, SCRAM_PASSWORD))
        for mechanism in SCRAM_HASHES:
            own = ("--set", f"sasl.mechanism={mechanism}", "--set", f"sasl.username={SCRAM_USER}")
            listed = ottla(kafka, tmp_path, "topic", "list", *own, "--set", f"sasl.password={SCRAM_PASSWORD}")
            assert (listed.returncode, listed.stdout, listed.stderr) == (0, "", "")
            refused = ottla(kafka, tmp_path, "topic", "list", *own, "--set", "sasl.password=guessed")
            assert refused.returncode == 1
            (line,) = refused.stderr.splitlines()
            assert line.startswith(f"ottla topic list: {kafka.bootstrap} refuses the user: ")
