"""mm2.properties: which workers and connectors its keys make."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.config.errors import ConfigError
from ottla.config.sources import from_file
from ottla.connect import settings as worker
from ottla.connect.plugins.catalog import installed_plugins
from ottla.mirror.run import settings
from ottla.mirror.run.flows import FlowPlan, Mm2File

MINIMAL = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""


def _file(tmp_path: Path, text: str) -> Mm2File:
    path = tmp_path / "mm2.properties"
    path.write_text(text)
    given = from_file(path)
    return Mm2File(given, settings.own_settings(given)[settings.CLUSTERS], installed_plugins())


def _flows(tmp_path: Path, text: str) -> dict[str, FlowPlan]:
    return {each.name: each for each in _file(tmp_path, text).flows()}


def test_a_flow_has_a_worker_on_its_target_with_mirrormaker_2s_names(tmp_path: Path) -> None:
    flow = _flows(tmp_path, MINIMAL)["A->B"]
    assert flow.worker[worker.BOOTSTRAP_SERVERS] == "b:9092"
    assert flow.worker[worker.GROUP_ID] == "A-mm2"
    assert flow.worker[worker.CONFIG_TOPIC] == "mm2-configs.A.internal"
    assert flow.worker[worker.OFFSET_TOPIC] == "mm2-offsets.A.internal"
    assert flow.worker[worker.STATUS_TOPIC] == "mm2-status.A.internal"
    assert list(flow.connectors) == [
        "MirrorSourceConnector",
        "MirrorCheckpointConnector",
        "MirrorHeartbeatConnector",
    ]
    source = flow.connectors["MirrorSourceConnector"]
    assert source["source.cluster.bootstrap.servers"] == "a:9092"
    assert source["target.cluster.bootstrap.servers"] == "b:9092"
    assert (source["source.cluster.alias"], source["target.cluster.alias"]) == ("A", "B")
    assert source["enabled"] == "true"


def test_a_flow_that_is_not_enabled_has_a_worker_for_its_heartbeats(tmp_path: Path) -> None:
    flows = _flows(tmp_path, MINIMAL)
    assert set(flows) == {"A->B", "B->A"}
    assert not flows["B->A"].enabled
    assert flows["B->A"].connectors["MirrorSourceConnector"]["enabled"] == "false"


@pytest.mark.parametrize("key", ["emit.heartbeats.enabled", "B->A.emit.heartbeats.enabled"])
def test_without_heartbeats_there_is_none(tmp_path: Path, key: str) -> None:
    assert set(_flows(tmp_path, f"{MINIMAL}\n{key} = false")) == {"A->B"}


def test_keys_of_the_flow_win_over_those_of_the_file(tmp_path: Path) -> None:
    text = f"{MINIMAL}\ntopics = all.*\nA->B.topics = orders.*\ntasks.max = 3\nA->B.offset.lag.max = 7"
    flows = _flows(tmp_path, text)
    source = flows["A->B"].connectors["MirrorSourceConnector"]
    assert (source["topics"], source["tasks.max"], source["offset.lag.max"]) == ("orders.*", "3", "7")
    assert flows["B->A"].connectors["MirrorSourceConnector"]["topics"] == "all.*"


def test_security_of_all_clusters_and_of_one(tmp_path: Path) -> None:
    text = f"""{MINIMAL}
security.protocol = SASL_PLAINTEXT
sasl.mechanism = PLAIN
sasl.jaas.config = org.x.PlainLoginModule required username="all" password="1";
B.sasl.jaas.config = org.x.PlainLoginModule required username="b" password="2";
A.consumer.fetch.max.bytes = 1000
"""
    flow = _flows(tmp_path, text)["A->B"]
    source = flow.connectors["MirrorSourceConnector"]
    assert 'username="all"' in source["source.cluster.sasl.jaas.config"]
    assert 'username="b"' in source["target.cluster.sasl.jaas.config"]
    assert source["source.consumer.fetch.max.bytes"] == "1000"
    assert flow.worker.texts()["security.protocol"] == "SASL_PLAINTEXT"
    assert 'username="b"' in flow.worker.texts()["sasl.jaas.config"]


def test_exactly_once_is_a_setting_of_the_target(tmp_path: Path) -> None:
    flows = _flows(tmp_path, f"{MINIMAL}\nB.exactly.once.source.support = enabled")
    assert flows["A->B"].worker[worker.EXACTLY_ONCE] is worker.SourceSupport.ENABLED
    assert flows["B->A"].worker[worker.EXACTLY_ONCE] is worker.SourceSupport.DISABLED
    assert "source.cluster.exactly.once.source.support" not in str(flows)


def test_secrets_stay_references_in_connectors_and_become_values_of_the_worker(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("login = b-password\n")
    reference = f"${{file:{tmp_path / 'secrets.properties'}:login}}"
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    text = f"{MINIMAL}\nconfig.providers = file\nconfig.providers.file.class = {provider}\n"
    flow = _flows(tmp_path, f"{text}\nB.ssl.key.password = {reference}")["A->B"]
    assert flow.connectors["MirrorSourceConnector"]["target.cluster.ssl.key.password"] == reference
    assert flow.worker.texts()["ssl.key.password"] == "b-password"


def test_only_flows_into_some_clusters(tmp_path: Path) -> None:
    file = _file(tmp_path, f"{MINIMAL}\nB->A.enabled = true")
    assert [each.name for each in file.flows(["A"])] == ["B->A"]
    with pytest.raises(ConfigError, match="--clusters C: there is no such cluster"):
        file.flows(["C"])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "A->B.topics = (",
            "A->B: MirrorSourceConnector: Invalid value ( for configuration topics: Invalid regex",
        ),
        ("A->B.offset.lag.max = -1", "offset.lag.max"),
        ("A->B.enabled = yes", "mm2.properties:6: A->B.enabled=yes: it is neither true nor false"),
        ("B.group.id =", "mm2.properties:6: group.id="),
        ("A->B.emit.checkpoints.interval.seconds = often", "emit.checkpoints.interval.seconds"),
        ("replication.policy.class = my.Policy", "replication.policy.class"),
    ],
)
def test_a_value_that_can_not_be_stops_the_start_with_a_line(tmp_path: Path, line: str, told: str) -> None:
    text = MINIMAL.strip() + "\n\n" + line
    if line.startswith("A->B.enabled"):
        text = MINIMAL.replace("A->B.enabled = true\n", "").strip() + "\n\n\n" + line
    with pytest.raises(ConfigError) as refused:
        _flows(tmp_path, text)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "clusters: name the clusters"),
        (
            "clusters = A,B\nA.bootstrap.servers=a:1",
            "B.bootstrap.servers: the servers of cluster B are missing",
        ),
        (
            "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nemit.heartbeats.enabled=false",
            "no flow is enabled: give one, as in A->B.enabled=true",
        ),
    ],
)
def test_a_file_that_says_too_little_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        _flows(tmp_path, text)


def test_unknown_keys_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = f"{MINIMAL}\nwhatever = 1\nA->B.topcis = a\nsync.topic.acls.enabled = false\nA.nonsense.key = 1"
    file = _file(tmp_path, text)
    with caplog.at_level(logging.WARNING, logger="ottla.mirror"):
        flows = {each.name: each for each in file.flows()}
        file.warn_of_unknown()
    assert "keys=A->B.topcis,whatever" in caplog.text
    assert "A.nonsense.key is ignored" in caplog.text
    assert "nonsense" not in str(flows["A->B"].connectors)
