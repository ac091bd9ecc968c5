"""`$SYS/` as clients see it: at once, again as it changes, and only where they may."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ottla import __version__
from support.clients.confluent import create_topic
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

TIMEOUT_S = 60

pytestmark = pytest.mark.system("mosquitto_sub", "mosquitto-clients")


def told(service: ServiceProcess, program: str, *words: str) -> str:
    done = subprocess.run(
        [program, "-p", str(service.port), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.stdout


def test_what_mosquitto_sub_shows(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    settings = {
        "ottla.mqtt.topics": f"$SYS/#={create_topic(broker.bootstrap, unique_name)}",
        "ottla.mqtt.retained.topic": "",
        "ottla.mqtt.sys.interval.seconds": "1",
    }
    with ServiceProcess.start("mqtt", broker.bootstrap, tmp_path, settings, scheme="mqtt") as service:
        version = told(
            service, "mosquitto_sub", "-t", "$SYS/broker/version", "-C", "1", "-F", "%p %r", "-W", "30"
        )
        assert version == f"ottla version {__version__} 1\n"
        uptimes = told(
            service,
            "mosquitto_sub",
            "-t",
            "$SYS/broker/+",
            "-T",
            "$SYS/broker/version",
            "-C",
            "3",
            "-F",
            "%r",
            "-W",
            "30",
        )
        assert uptimes.split() == ["1", "0", "0"]  # those that come later are not retained
        load = told(
            service, "mosquitto_sub", "-t", "$SYS/broker/load/connections/1min", "-C", "1", "-W", "30"
        )
        assert float(load) > 0
        forged = told(
            service, "mosquitto_pub", "-V", "5", "-q", "1", "-t", "$SYS/broker/version", "-m", "forged"
        )
        assert "Not authorized" in forged


def test_rules_hold_there_too(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    settings = {
        "ottla.mqtt.topics": f"#={create_topic(broker.bootstrap, unique_name)}",
        "ottla.mqtt.retained.topic": "",
        "ottla.access.rules": "* read public/*",
    }
    with ServiceProcess.start("mqtt", broker.bootstrap, tmp_path, settings, scheme="mqtt") as service:
        denied = told(service, "mosquitto_sub", "-V", "5", "-t", "$SYS/#", "-C", "1", "-W", "30")
        assert "denied" in denied.lower() or "Not authorized" in denied
