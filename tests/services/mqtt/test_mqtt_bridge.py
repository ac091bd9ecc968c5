"""mosquitto's bridge: a broker at the edge passes on to Kafka what devices say, and gets what is for them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.clients.confluent import create_topic, eventually, read_all
from support.servers.cluster import ServerProcess, free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

TIMEOUT_S = 60
BRIDGE = """
listener {port} 127.0.0.1
allow_anonymous true
persistence false
connection cloud
address 127.0.0.1:{remote}
bridge_protocol_version {version}
topic sensors/# out 1
topic commands/# in 1
notifications_local_only true
try_private false
restart_timeout 1
"""

pytestmark = [pytest.mark.system("mosquitto"), pytest.mark.system("mosquitto_pub", "mosquitto-clients")]


@contextmanager
def bridge(service: ServiceProcess, directory: Path, version: str) -> Iterator[int]:
    """A mosquitto at the edge; its port."""
    port = free_port()
    config = directory / "bridge.conf"
    config.write_text(BRIDGE.format(port=port, remote=service.port, version=version))
    words = ["/bin/sh", "-c", f"exec mosquitto -c '{config}' 2>&1"]  # it logs to stderr
    server = ServerProcess(words, " running", directory / "bridge.log", start_timeout_s=20)
    server.start()
    try:
        yield port
    finally:
        server.stop()


def publish(port: int, *words: str) -> None:
    subprocess.run(["mosquitto_pub", "-p", str(port), "-q", "1", *words], timeout=TIMEOUT_S, check=True)


def first(port: int, *words: str) -> Sequence[str]:
    done = subprocess.run(
        ["mosquitto_sub", "-p", str(port), "-q", "1", "-W", "30", *words],
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("version", ["mqttv311", "mqttv50"])
def test_both_directions(broker: OttlaBroker, tmp_path: Path, unique_name: str, version: str) -> None:
    readings = create_topic(broker.bootstrap, f"{unique_name}-readings")
    commands = create_topic(broker.bootstrap, f"{unique_name}-commands")
    settings = {
        "ottla.mqtt.topics": f"sensors/#={readings},commands/#={commands}",
        "ottla.mqtt.retained.topic": f"{unique_name}-retained",
    }
    with ExitStack() as stack:
        service = stack.enter_context(
            ServiceProcess.start("mqtt", broker.bootstrap, tmp_path, settings, scheme="mqtt")
        )
        publish(service.port, "-r", "-t", "commands/valve", "-m", "shut")
        edge = stack.enter_context(bridge(service, tmp_path, version))

        for number in range(20):
            publish(edge, "-t", "sensors/a", "-m", str(number))
        publish(edge, "-r", "-t", "sensors/b", "-m", "kept")
        messages = read_all(broker.bootstrap, readings, 21)
        assert [each.value() for each in messages] == [*(b"%d" % one for one in range(20)), b"kept"]
        kept = first(service.port, "-t", "sensors/#", "-C", "1", "-F", "%t %p %r")
        assert kept == ["sensors/b kept 1"]

        # it has subscribed once it has what was retained before it came
        eventually(lambda: first(edge, "-t", "commands/valve", "-C", "1") == ["shut"], "it came to the edge")
        words = ["mosquitto_sub", "-p", str(edge), "-t", "commands/pump", "-C", "1", "-W", "30"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as device:

            def has_come() -> bool:
                publish(service.port, "-t", "commands/pump", "-m", "on")
                return device.poll() is not None

            eventually(has_come, "what comes later is passed on too")
            assert device.communicate(timeout=TIMEOUT_S)[0] == "on\n"
        if version == "mqttv50":  # the bridge subscribes with Retain As Published, which 3.1.1 does not have
            publish(service.port, "-r", "-t", "commands/valve", "-m", "open")
            eventually(lambda: first(edge, "-t", "commands/valve", "-C", "1") == ["open"], "it is retained")
