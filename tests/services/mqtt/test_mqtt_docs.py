"""The walk of docs/mqtt.md, run in its order on free ports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.docs.blocks import indented, section
from support.servers.cluster import ServerProcess, free_port

PAGE = "mqtt.md"
TIMEOUT_S = 120

pytestmark = [pytest.mark.system("mosquitto_pub", "mosquitto-clients"), pytest.mark.system("curl")]


class Walk:
    """A reader's shell in a directory of its own; servers run to the end of the walk."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory, self._stack = directory, stack
        broker, mqtt = free_port(), free_port()
        others = {
            port: free_port() for port in ("1884", "8084", "1885", "1886", "1887", "1891", "1892", "9184")
        }
        # The page's ports are those that one has on a machine of one's own.
        self._usual = {
            "--data ./data": f"--data ./data --listen 127.0.0.1:{broker}",
            "ottla mqtt --topic 'sensors": f"ottla mqtt --listen 127.0.0.1:{mqtt} --topic 'sensors",
            **{f"127.0.0.1:{usual}": f"127.0.0.1:{free}" for usual, free in others.items()},
            **{f"-p {usual}": f"-p {free}" for usual, free in others.items()},
            "mosquitto_pub -V 5 -i": f"mosquitto_pub -p {mqtt} -V 5 -i",
            "mosquitto_pub -V 5 -q": f"mosquitto_pub -p {mqtt} -V 5 -q",
            "mosquitto_pub -i": f"mosquitto_pub -p {mqtt} -i",
            "mosquitto_pub -q 1 -r": f"mosquitto_pub -p {mqtt} -q 1 -r",
            "mosquitto_sub -t": f"mosquitto_sub -p {mqtt} -t",
            "mosquitto_sub -i": f"mosquitto_sub -p {mqtt} -i",
        }
        tools = directory / "bin"
        tools.mkdir()
        (tools / "ottla").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n')
        (tools / "ottla").chmod(0o755)
        bootstrap = f"127.0.0.1:{broker}"
        self._environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "OTTLA_BOOTSTRAP": bootstrap,
            "OTTLA_MQTT_BOOTSTRAP_SERVERS": bootstrap,
        }

    def run(self, title: str) -> str:
        """What the commands of a section print."""
        return "".join(self._block(each) for each in indented(section(PAGE, title)))

    def _block(self, block: str) -> str:
        for usual, free in self._usual.items():
            block = block.replace(usual, free)
        told = ""
        foreground = ""
        for line in block.splitlines():
            server = re.fullmatch(r"(ottla .*) &", line)
            if server is None:
                foreground += f"{line}\n"
                continue
            told += self._shell(foreground)
            foreground = ""
            log = self._directory / f"server-{free_port()}.log"
            words = ["/bin/sh", "-c", f"cd '{self._directory}' && exec {server[1]}"]
            running = ServerProcess(words, " ready", log, environment=dict(self._environment))
            self._stack.callback(running.stop)
            running.start()
        return told + self._shell(foreground)

    def _shell(self, script: str) -> str:
        if not script.strip():
            return ""
        done = subprocess.run(
            ["/bin/bash", "-ec", script],
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (script, done.stdout)
        return done.stdout


def test_the_walk(tmp_path: Path) -> None:
    with ExitStack() as stack:
        walk = Walk(tmp_path, stack)
        first = [json.loads(line) for line in walk.run("A first message").splitlines()]
        assert [(each["key"], each["value"]) for each in first] == [
            ("sensors/kitchen/temperature", "21.5"),
            ("sensors/cellar/temperature", "12.0"),
        ]
        assert first[0]["headers"] == {
            "mqtt.topic": "sensors/kitchen/temperature",
            "mqtt.client.id": "kitchen",
            "mqtt.qos": "1",
            "unit": "C",
        }
        routed = walk.run("Which topic, which key").splitlines()
        assert (json.loads(routed[0])["key"], json.loads(routed[0])["value"]) == ("attic", "30.1")
        assert routed[1] == "overheated"
        assert walk.run("Subscribing").splitlines()[-2:] == [
            "sensors/kitchen/temperature 22.0",
            "sensors/garden/temperature 8.5",
        ]
        assert walk.run("Sessions").splitlines()[-1] == "sensors/attic/light 140"
        assert walk.run("Several copies").splitlines()[-1] == "sensors/gate open"
        assert walk.run("Retained messages") == "sensors/kitchen/target 21 retained=1\n"
        refused = walk.run("What is refused, and how")
        assert "Topic Name invalid" in refused and "QoS not supported" in refused
        known = walk.run("Who may connect")
        assert "Publish 1 failed: Not authorized" in known and "ad user name or password" in known.lower()
        watched = walk.run("Watching it")
        assert 'ottla_mqtt_messages_total{qos="1",outcome="stored"} 2' in watched
        assert '"status": "ok"' in watched and watched.splitlines()[-1].isdigit()
