"""A device written in Go, with eclipse/paho.golang, on `ottla mqtt`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from conformance.suites.go_clients import MODULE

from support.clients.confluent import create_topic, read_all
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

BUILD_TIMEOUT_S = 600
TIMEOUT_S = 90
MESSAGES = 200

pytestmark = [pytest.mark.long, pytest.mark.system("go")]


def test_it_publishes_and_subscribes(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    program = tmp_path / "paho"
    subprocess.run(
        ["go", "build", "-C", str(MODULE), "-o", str(program), "./paho"],
        env={**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"},
        timeout=BUILD_TIMEOUT_S,
        check=True,
    )
    topic = create_topic(broker.bootstrap, unique_name)
    settings = {"ottla.mqtt.topics": f"go/#={topic}", "ottla.mqtt.retained.topic": f"{topic}-retained"}
    with ServiceProcess.start("mqtt", broker.bootstrap, tmp_path, settings, scheme="mqtt") as service:
        done = subprocess.run(
            [program, f"127.0.0.1:{service.port}", "go/a", str(MESSAGES)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "acknowledged": MESSAGES,
        "refused": 0x90,
        "retained": f"go {MESSAGES - 1}",
        "is_retained": True,
    }
    messages = read_all(broker.bootstrap, topic, MESSAGES)
    assert [each.value() for each in messages] == [b"go %d" % number for number in range(MESSAGES)]
