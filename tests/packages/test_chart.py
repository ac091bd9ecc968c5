"""The Helm chart: its renderings fit together, and what they configure is a cluster of three brokers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.testing import Kafka
from support.servers.cluster import ServerProcess, free_port

ROOT = Path(__file__).parents[2]
RENDERED = Path(__file__).parent / "rendered"
CASES = ("three-brokers", "five-brokers", "one-broker")
HEADLESS = "ottla-headless.default.svc.cluster.local"
TIMEOUT_S = 60


def rendering(case: str) -> dict[tuple[str, str], Any]:
    """The resources of a rendering by kind and name."""
    documents = yaml.safe_load_all((RENDERED / f"{case}.yaml").read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in documents if each}


def properties_of(resources: dict[tuple[str, str], Any]) -> dict[str, str]:
    text = resources["ConfigMap", "ottla"]["data"]["server.properties"]
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.mark.parametrize("case", CASES)
def test_a_rendering_is_that_of_the_chart_as_it_is(case: str) -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import render_chart
    finally:
        sys.path.pop(0)
    first = (RENDERED / f"{case}.yaml").read_text().partition("\n")[0]
    assert first == f"# chart {render_chart.chart_digest()}", "run python tools/render_chart.py"


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_helm_renders_the_chart_so(case: str) -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import render_chart
    finally:
        sys.path.pop(0)
    helm = render_chart.helm()
    if helm is None:
        pytest.skip("neither helm nor go is here")
    assert render_chart.render(helm, case) == (RENDERED / f"{case}.yaml").read_text()
    refused = [helm, "template", "ottla", str(ROOT / "packaging/helm/ottla"), "--kube-version", "1.33"]
    for values, message in (
        ("replicas=1", "controllers is 3, and there are 1 replicas"),
        ("config.listeners=x", "config has listeners, which the chart gives"),
        ("controllers=2", "controllers"),
    ):
        run = subprocess.run([*refused, "--set", values], capture_output=True, text=True, check=False)
        assert run.returncode != 0 and message in run.stderr


@pytest.mark.parametrize(
    ("case", "brokers", "voters"), [(CASES[0], 3, 3), (CASES[1], 5, 3), (CASES[2], 1, 1)]
)
def test_the_parts_of_a_rendering_fit_together(case: str, brokers: int, voters: int) -> None:
    resources = rendering(case)
    stateful = resources["StatefulSet", "ottla"]["spec"]
    pod = stateful["template"]
    (container,) = pod["spec"]["containers"]
    # pods are found by both services and the disruption budget, under the names that voters have
    for kind, name in (("Service", "ottla"), ("Service", "ottla-headless")):
        assert resources[kind, name]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    budget = resources["PodDisruptionBudget", "ottla"]["spec"]
    assert budget["selector"] == stateful["selector"] and budget["maxUnavailable"] == 1
    headless = resources["Service", stateful["serviceName"]]["spec"]
    assert headless["clusterIP"] == "None" and headless["publishNotReadyAddresses"] is True
    given = properties_of(resources)
    expected = [f"{number + 1}@ottla-{number}.{HEADLESS}:9093" for number in range(voters)]
    assert given["controller.quorum.voters"].split(",") == expected
    # replication fits the number of brokers
    assert stateful["replicas"] == brokers
    assert (
        given["default.replication.factor"]
        == given["offsets.topic.replication.factor"]
        == str(min(3, brokers))
    )
    assert given["min.insync.replicas"] == str(max(1, min(3, brokers) - 1))
    # the process is no root, and has a place to write that is its own claim
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]}
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert set(mounts) == claims | volumes and given["log.dirs"].startswith(mounts["data"])
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["exec"]["command"][-1] == "127.0.0.1:9092"


def test_numbers_reach_the_broker_as_kafka_reads_them() -> None:
    given = properties_of(rendering("five-brokers"))
    assert given["log.retention.bytes"] == "1073741824" and given["a.ratio"] == "0.5"


class Pod:
    """A pod of the rendering as a process: its names are addresses here, its volumes directories."""

    def __init__(self, ordinal: int, ports: tuple[int, int], directory: Path) -> None:
        self.ordinal = ordinal
        self.directory = directory / f"pod-{ordinal}"
        self.address = f"127.0.1.{ordinal + 1}"
        self.ports = ports
        resources = rendering("three-brokers")
        (container,) = resources["StatefulSet", "ottla"]["spec"]["template"]["spec"]["containers"]
        self.directory.mkdir(parents=True)
        for name, text in resources["ConfigMap", "ottla"]["data"].items():
            (self.directory / name).write_text(self.mapped(text))
        self.probe = [self.mapped(word) for word in container["readinessProbe"]["exec"]["command"]]
        self.server = ServerProcess(
            [self.mapped(word) for word in container["command"]],
            "ottla broker ready",
            self.directory / "log",
            environment={
                "POD_NAME": f"ottla-{ordinal}",
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            },
        )

    def mapped(self, text: str) -> str:
        """The text with this machine's names and places for those of the pod."""
        for number in range(3):
            text = text.replace(f"ottla-{number}.{HEADLESS}", f"127.0.1.{number + 1}")
        for written, here in (
            (f"$POD_NAME.{HEADLESS}", self.address),
            ("0.0.0.0", self.address),
            ("127.0.0.1", self.address),
            (":9092", f":{self.ports[0]}"),
            (":9093", f":{self.ports[1]}"),
            ("/var/lib/ottla", str(self.directory / "data")),
            ("/etc/ottla", str(self.directory)),
            ("/opt/ottla/healthcheck.py", str(ROOT / "packaging/oci/healthcheck.py")),
        ):
            text = text.replace(written, here)
        return text

    def ready(self) -> bool:
        """Whether the probe says so."""
        return subprocess.run(self.probe, check=False, stdout=subprocess.DEVNULL).returncode == 0


def test_the_rendered_configuration_starts_three_brokers(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    pods = [Pod(ordinal, ports, tmp_path) for ordinal in range(3)]
    try:
        # given: all at once, as podManagementPolicy Parallel does
        for pod in pods:
            pod.server.launch()
        for pod in pods:
            pod.server.wait_until_ready()
            assert pod.ready()
        # then they are one cluster
        kafka = Kafka(f"{pods[0].address}:{ports[0]}")
        kafka.create_topic("t", timeout_seconds=TIMEOUT_S)
        kafka.produce("t", "a")
        told = kafka.consume("t")
        assert [each.text for each in told] == ["a"]
        # when a pod goes away, as with a rolling update, the process in it ends cleanly
        assert pods[0].server.stop() == 0 and not pods[0].ready()
        others = Kafka(f"{pods[1].address}:{ports[0]}")
        others.produce("t", "b", timeout_seconds=TIMEOUT_S)
        pods[0].server.start()
        assert len(kafka.consume("t", 2, timeout_seconds=TIMEOUT_S)) == 2
    finally:
        for pod in pods:
            pod.server.kill()
