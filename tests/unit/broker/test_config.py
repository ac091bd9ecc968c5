"""A broker's configuration: what it reads, what stops the start and with which words."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import Listener
from ottla.config.errors import ConfigError, UsageError
from ottla.config.sources import from_file, from_mapping, from_words, layered
from ottla.core.image.image import MetadataImage
from ottla.core.settings import broker_settings, group_settings, topic_settings
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.schema import Message
from support.core.metadata import apply

KAFKA_S_OWN_FILE = """\
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
log.dirs=logs/combined
num.partitions=1
log.retention.hours=168
"""


def configured(**values: str) -> BrokerConfig:
    """A configuration of these values; underscores stand for dots."""
    return BrokerConfig.from_mapping({name.replace("_", "."): value for name, value in values.items()})


def loaded(
    file: Path | None = None, words: Sequence[str] = (), defaults: Mapping[str, str] | None = None
) -> BrokerConfig:
    """A configuration as the command reads it."""
    return BrokerConfig(
        layered({} if file is None else from_file(file), from_words(words), from_mapping(defaults or {}))
    )


def problem(**values: str) -> str:
    with pytest.raises(ConfigError) as refused:
        configured(**values)
    return str(refused.value)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# -- reading ------------------------------------------------------------------------------------------


def test_a_file_with_overrides(tmp_path: Path) -> None:
    file = write(tmp_path / "server.properties", "num.partitions=3\nlog.retention.hours=1\n")
    config = loaded(file, ["num.partitions=5", "broker.rack= east"])
    assert config[broker_settings.NUM_PARTITIONS] == 5
    assert config[broker_settings.LOG_RETENTION_HOURS] == 1
    assert config.rack == "east"


def test_defaults_are_for_what_nobody_says(tmp_path: Path) -> None:
    file = write(tmp_path / "server.properties", "num.partitions=3\n")
    defaults = {"num.partitions": "7", "broker.rack": "west", "log.dir": "here"}
    config = loaded(file, ["log.dirs=there"], defaults)
    assert config[broker_settings.NUM_PARTITIONS] == 3
    assert config.rack == "west"
    assert config.log_directory == Path("there")


def test_nothing_at_all_is_a_single_node() -> None:
    config = loaded()
    assert config.node_id == 1
    assert config[broker_settings.PROCESS_ROLES] == ("broker", "controller")
    assert config.listener == Listener("PLAINTEXT", "", 9092)


def test_the_file_that_kafka_comes_with(tmp_path: Path) -> None:
    config = loaded(write(tmp_path / "server.properties", KAFKA_S_OWN_FILE))
    assert config.node_id == 7
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert config.controller_listener == Listener("CONTROLLER", "localhost", 9093)
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.log_directory == Path("logs/combined")


def test_unknown_keys_are_named_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = configured(zookeeper_connect="x:2181", num_partition="3", listener_name_x_ssl_protocol="TLS")
    (record,) = caplog.records
    assert record.getMessage() == "unknown settings are ignored keys=num.partition,zookeeper.connect"
    assert config.static["zookeeper.connect"] == "x:2181"


# -- what stops the start -------------------------------------------------------------------------------


def test_a_wrong_value_is_named_with_its_place(tmp_path: Path) -> None:
    file = write(tmp_path / "server.properties", "\n# how many\nnum.partitions=0\n")
    with pytest.raises(ConfigError) as refused:
        loaded(file)
    assert str(refused.value) == f"{file}:3: num.partitions=0: Value must be at least 1"


def test_a_wrong_override_is_named_as_one() -> None:
    with pytest.raises(ConfigError, match=r"^--set num\.partitions=x: Not a number of type INT$"):
        loaded(None, ["num.partitions=x"])
    with pytest.raises(UsageError, match="write it as key=value"):
        loaded(None, ["num.partitions"])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't read it: No such file"):
        loaded(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="can't read it: Is a directory"):
        loaded(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a text in UTF-8"):
        loaded(tmp_path / "binary")
    with pytest.raises(ConfigError, match=r"escape:2: .*hexadecimal"):
        loaded(write(tmp_path / "escape", "a=1\nb=\\u00zz"))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"process_roles": "broker"}, "process.roles=broker: a node without the controller role has to know"),
        ({"process_roles": "broker,cook"}, "String must be one of: broker, controller"),
        ({"node_id": "1", "broker_id": "2"}, "broker.id=2: it must be the same as node.id=1"),
        ({"node_id": "-1"}, "node.id=-1: Value must be at least 0"),
        ({"log_dirs": "a,b"}, "log.dirs=a,b: one data directory is served"),
        ({"log_dir": "a", "metadata_log_dir": "b"}, "metadata.log.dir=b"),
        ({"controller_quorum_voters": "1@a:1,2@b:1"}, "a controller among several needs a listener"),
        ({"controller_quorum_voters": "2@a:1,3@b:1"}, "node.id=1 is a controller by process.roles"),
        ({"controller_quorum_voters": "1@a:1,1@b:1"}, "node 1 is given twice"),
        ({"controller_quorum_voters": "1@0.0.0.0:1,2@b:1"}, "no node can connect to 1@0.0.0.0:1"),
        ({"controller_quorum_voters": "3000000000@b:1"}, "3000000000 is too large for a node id"),
        (
            {"process_roles": "broker", "controller_quorum_voters": "1@a:1,2@b:1"},
            "node.id=1 is no controller by process.roles",
        ),
        (
            {"process_roles": "broker", "controller_quorum_bootstrap_servers": "a:1"},
            "node.id: give each node of a cluster a number of its own",
        ),
        (
            {
                "process_roles": "broker",
                "controller_quorum_bootstrap_servers": "a:1",
                "listeners": "PLAINTEXT://a:1,CONTROLLER://a:2",
            },
            "CONTROLLER is one of controller.listener.names, and process.roles has no controller",
        ),
        ({"process_roles": "controller"}, "a controller needs a listener that controller.listener.names"),
        (
            {"process_roles": "controller", "listeners": "PLAINTEXT://a:1,CONTROLLER://a:2"},
            "PLAINTEXT is not one of controller.listener.names, and process.roles has no broker",
        ),
        ({"controller_quorum_voters": "a:1"}, "'a:1' is not id@host:port"),
        ({"controller_quorum_bootstrap_servers": "a:1,b:1"}, "a controller among several needs a listener"),
        ({"controller_quorum_bootstrap_servers": "a"}, "'a' is not host:port"),
        ({"replica_selector_class": "my.Own"}, "replica.selector.class=my.Own: it is not one of org.apache"),
        (
            {"replica_lag_time_max_ms": "400"},
            "replica.lag.time.max.ms=400: replica.fetch.wait.max.ms=500 must be at most",
        ),
        (
            {"replica_fetch_wait_max_ms": "40000"},
            "replica.fetch.wait.max.ms=40000: replica.fetch.wait.max.ms=40000 must be at most "
            "replica.socket.timeout.ms=30000",
        ),
        ({"super_users": "User:alice;bob"}, "`bob` is not a principal"),
        ({"authorizer_class_name": "Kafka.Auth"}, "StandardAuthorizer alone"),
        ({"create_topic_policy_class_name": "my.Policy"}, "what it protects would be open"),
        ({"alter_config_policy_class_name": "my.Policy"}, "what it protects would be open"),
        ({"client_quota_callback_class": "my.Quota"}, "what it protects would be open"),
        ({"config_providers": "file"}, "what it protects would be open"),
        ({"listeners": "SASL_SSL://:9093"}, "sasl.enabled.mechanisms: GSSAPI is not served, name some of"),
        (
            {"listeners": "SSL://:9093", "ssl_enabled_protocols": "TLSv1.3,SSLv3"},
            "ssl.enabled.protocols=TLSv1.3,SSLv3: SSLv3 is not served, name some of",
        ),
        (
            {"listeners": "SSL://:9093", "ssl_protocol": "SSL"},
            "ssl.protocol=SSL: it is not one of TLS, TLSv1",
        ),
        (
            {"listeners": "SSL://:9093", "ssl_endpoint_identification_algorithm": "LDAPS"},
            "LDAPS is neither https nor empty",
        ),
        ({"listeners": "SSL://:9093", "ssl_principal_mapping_rules": "RULE:a"}, "Invalid rule: `RULE:a`"),
        ({"listeners": "SSL://:9093", "ssl_engine_factory_class": "a.B"}, "classes of Java can't be loaded"),
        ({"listeners": "SSL://:9093", "ssl_provider": "BCJSSE"}, "ssl.provider=BCJSSE: TLS is OpenSSL's"),
        ({"principal_builder_class": "a.B"}, "principals are those of org.apache.kafka"),
        (
            {"listeners": "SSL://a:1,CONTROLLER://a:2"},
            "it has no entry for controller listener CONTROLLER, which listener SSL",
        ),
        (
            {"listeners": "SASL_PLAINTEXT://a:1"},
            "sasl.enabled.mechanisms: GSSAPI is not served, name some of",
        ),
        (
            {"listeners": "SASL_PLAINTEXT://a:1", "sasl_enabled_mechanisms": "PLAIN"},
            "listener.name.sasl_plaintext.plain.sasl.jaas.config: it is not set",
        ),
        (
            {
                "node_id": "1",
                "listeners": "SASL_PLAINTEXT://a:1,CONTROLLER://a:2",
                "listener_security_protocol_map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SSL",
                "sasl_enabled_mechanisms": "SCRAM-SHA-256",
                "controller_quorum_voters": "1@a:2,2@b:2",
            },
            "sasl.mechanism.inter.broker.protocol: GSSAPI is not served, name some of",
        ),
        (
            {
                "listeners": "SASL_PLAINTEXT://a:1,CONTROLLER://a:2",
                "listener_security_protocol_map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SSL",
                "sasl_enabled_mechanisms": "SCRAM-SHA-256",
                "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-512",
            },
            "nodes log in to each other at listener SASL_PLAINTEXT, where sasl.enabled.mechanisms has "
            "SCRAM-SHA-256: name one of these",
        ),
        (
            {
                "listeners": "SASL_PLAINTEXT://a:1,CONTROLLER://a:2",
                "listener_security_protocol_map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SSL",
                "sasl_enabled_mechanisms": "SCRAM-SHA-256",
                "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-256",
            },
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config: it is not set",
        ),
        (
            {
                "listeners": "PLAINTEXT://a:1,CONTROLLER://a:2",
                "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
                "sasl_enabled_mechanisms": "SCRAM-SHA-256",
            },
            "sasl.mechanism.controller.protocol: GSSAPI is not served",
        ),
        (
            {"listeners": "SASL_PLAINTEXT://a:1", "sasl_enabled_mechanisms": "OAUTHBEARER"},
            "sasl.oauthbearer.jwks.endpoint.url: OAUTHBEARER needs it at listener SASL_PLAINTEXT",
        ),
        (
            {
                "listeners": "SASL_PLAINTEXT://a:1",
                "sasl_enabled_mechanisms": "SCRAM-SHA-256",
                "sasl_server_callback_handler_class": "my.LdapHandler",
            },
            "my.LdapHandler can't be loaded, so SCRAM-SHA-256 would be checked by other rules",
        ),
        ({"listeners": "INSIDE://:9092"}, "no entry in listener.security.protocol.map"),
        ({"listeners": "9092"}, "'9092' is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://:99999"}, "is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "each listener must have a different name"),
        ({"listeners": "CONTROLLER://:9093"}, "a broker needs a listener that is not one of"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "set advertised.listeners"),
        ({"listeners": "PLAINTEXT://a:1,CONTROLLER://0.0.0.0:2"}, "set advertised.listeners"),
        (
            {"listeners": "PLAINTEXT://a:1,CONTROLLER://a:2", "advertised_listeners": "CONTROLLER://a:2"},
            "a broker needs one that is not of controller.listener.names",
        ),
        ({"advertised_listeners": "CONTROLLER://a:1"}, "CONTROLLER is not one of this node's listeners"),
        ({"advertised_listeners": "OTHER://a:1"}, "no entry in listener.security.protocol.map"),
        ({"advertised_listeners": "SSL://a:1"}, "SSL is not one of this node's listeners"),
        ({"inter_broker_listener_name": "OTHER"}, "OTHER is not one of the broker's listeners"),
        ({"security_inter_broker_protocol": "SSL"}, "no listener of the broker speaks SSL"),
        (
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "PLAINTEXT"},
            "set only one of",
        ),
        ({"listener_security_protocol_map": "A"}, "'A' is not NAME:PROTOCOL"),
        ({"listener_security_protocol_map": "A:TCP"}, "TCP is not one of PLAINTEXT, SSL"),
        ({"listener_security_protocol_map": "A:SSL,a:SSL"}, "a is given twice"),
    ],
)
def test_what_stops_the_start(values: dict[str, str], words: str) -> None:
    assert words in problem(**values)


def test_two_listeners_on_one_port() -> None:
    listeners = {
        "listeners": "A://:9092,B://:9092",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
    }
    with pytest.raises(ConfigError, match="each listener must have a different port"):
        BrokerConfig.from_mapping(listeners)


# -- several nodes --------------------------------------------------------------------------------------

THREE_VOTERS = "1@a:9093,2@b:9093,3@c:9093"


def test_a_node_of_three() -> None:
    config = configured(
        node_id="2",
        listeners="PLAINTEXT://b:9092,CONTROLLER://b:9093",
        controller_quorum_voters=THREE_VOTERS,
    )
    assert (config.is_broker, config.is_controller, config.quorum_alone) == (True, True, False)
    assert config.quorum_voters == {1: ("a", 9093), 2: ("b", 9093), 3: ("c", 9093)}
    assert config.listeners == (Listener("PLAINTEXT", "b", 9092),)
    assert config.controller_listeners == (Listener("CONTROLLER", "b", 9093),)


def test_a_broker_without_the_controller_role() -> None:
    config = configured(
        process_roles="broker",
        node_id="4",
        listeners="PLAINTEXT://d:1",
        controller_quorum_voters=THREE_VOTERS,
    )
    assert (config.is_broker, config.is_controller, config.quorum_alone) == (True, False, False)
    assert config.controller_listeners == config.advertised_controller_listeners == ()


def test_a_controller_without_the_broker_role() -> None:
    config = configured(
        process_roles="controller",
        node_id="4",
        listeners="B://d:1,A://d:2",
        controller_listener_names="A,B",
        controller_quorum_bootstrap_servers="a:9093,b:9093",
    )
    assert (config.is_broker, config.is_controller, config.quorum_alone) == (False, True, False)
    assert config.listeners == config.advertised_listeners == ()
    assert config.quorum_bootstrap_servers == (("a", 9093), ("b", 9093))
    assert [listener.name for listener in config.advertised_controller_listeners] == ["A", "B"]
    assert config.controller_listener == config.advertised_controller_listeners[0]
    assert config.listener.name == "B"


@pytest.mark.parametrize(
    ("values", "alone"),
    [
        ({}, True),
        ({"controller_quorum_voters": "1@a:9093"}, True),
        ({"controller_quorum_bootstrap_servers": "a:9093"}, True),
        ({"controller_quorum_bootstrap_servers": "A:9093"}, True),
        ({"controller_quorum_bootstrap_servers": "a:9094"}, False),
        ({"controller_quorum_bootstrap_servers": "b:9093"}, False),
        ({"controller_quorum_bootstrap_servers": "a:9093,b:9093"}, False),
        ({"controller_quorum_voters": "1@a:9093,2@b:9093"}, False),
        (
            {
                "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
                "controller_quorum_bootstrap_servers": "localhost:9093",
            },
            True,
        ),
        (
            {
                "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
                "controller_quorum_bootstrap_servers": "localhost:9094",
            },
            False,
        ),
    ],
)
def test_who_is_alone(values: dict[str, str], alone: bool) -> None:
    listeners = {"listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093", "node_id": "1"}
    assert configured(**{**listeners, **values}).quorum_alone is alone


# -- listeners ------------------------------------------------------------------------------------------


def test_several_listeners() -> None:
    config = BrokerConfig.from_mapping(
        {
            "listeners": "inside://[::1]:9092, OUTSIDE://0.0.0.0:9192",
            "advertised.listeners": "INSIDE://[::1]:9092,OUTSIDE://kafka.example.org:443",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        }
    )
    assert config.listener == Listener("INSIDE", "::1", 9092)
    assert config.advertised_listeners[1] == Listener("OUTSIDE", "kafka.example.org", 443)
    assert config.inter_broker_listener_name == "INSIDE"
    assert config.controller_listener == Listener("CONTROLLER", "::1", 9093)


def test_every_interface_is_advertised_by_the_hosts_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "otter")
    assert configured(listeners="PLAINTEXT://:9092").advertised_listeners[0].host == "otter"


def test_broker_id_is_an_older_name_of_node_id() -> None:
    config = configured(broker_id="5")
    assert config.node_id == 5
    assert config.static["node.id"] == "5"


# -- what changes while it runs -------------------------------------------------------------------------


def change(resource_type: int, resource_name: str, name: str, value: str) -> Message:
    return ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)


def test_dynamic_values_are_followed() -> None:
    config = configured(node_id="3", log_retention_ms="30")
    image = MetadataImage()
    apply(image, [change(4, "", "log.retention.ms", "20"), change(4, "9", "log.retention.ms", "9")])
    config.follow(image)
    assert config[broker_settings.LOG_RETENTION_MS] == 20
    apply(image, [change(4, "3", "log.retention.ms", "10")])
    config.follow(image)
    assert config[broker_settings.LOG_RETENTION_MS] == 10
    assert config.for_topic("orders", image)[topic_settings.RETENTION_MS] == 10


def test_topics_and_groups_have_their_own() -> None:
    config = configured()
    image = MetadataImage()
    apply(
        image,
        [change(2, "orders", "retention.ms", "5"), change(32, "g", "share.session.timeout.ms", "50000")],
    )
    assert config.for_topic("orders", image)[topic_settings.RETENTION_MS] == 5
    assert config.for_topic("others", image)[topic_settings.RETENTION_MS] == 604_800_000
    assert config.for_group("g", image)[group_settings.SHARE_SESSION_TIMEOUT_MS] == 50_000
