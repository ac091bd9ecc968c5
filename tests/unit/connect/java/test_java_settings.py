"""The properties of a Java worker, made from those of the worker that starts it."""

from __future__ import annotations

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.java.jars import connect_jars
from ottla.connect.java.settings import JavaOptions, java_options

WORKER = {"bootstrap.servers": "127.0.0.1:9092", "plugin.path": "/plugins", "group.id": "team"}


def options(**more: str) -> JavaOptions:
    made = java_options({**WORKER, **{name.replace("_", "."): text for name, text in more.items()}})
    assert made is not None
    return made


def test_without_a_plugin_path_there_is_no_java_worker() -> None:
    assert java_options({"bootstrap.servers": "127.0.0.1:9092"}) is None
    assert java_options({**WORKER, "plugin.path": " "}) is None


def test_the_java_worker_has_a_group_and_topics_of_its_own() -> None:
    given = options(offset_storage_topic="team-offsets").properties
    assert given["group.id"] == "team-java"
    assert given["config.storage.topic"] == "connect-configs-java"
    assert given["offset.storage.topic"] == "team-offsets-java"
    assert given["status.storage.topic"] == "connect-status-java"
    assert options().config_topic == "connect-configs-java"


def test_the_rest_api_of_the_java_worker_is_on_loopback_and_not_that_of_the_worker() -> None:
    given = options(
        listeners="http://0.0.0.0:8083",
        rest_advertised_port="8083",
        authentication_method="BASIC",
        ottla_task_restart_max="3",
    ).properties
    assert given["listeners"] == "http://127.0.0.1:0"
    assert not {
        name for name in given if name.startswith(("authentication", "ottla", "rest.advertised.port"))
    }


def test_properties_of_both_workers_are_carried_over() -> None:
    given = options(
        exactly_once_source_support="enabled",
        value_converter="org.apache.kafka.connect.storage.StringConverter",
        value_converter_schemas_enable="false",
        connector_client_config_override_policy="None",
        config_providers="file",
        config_providers_file_class="org.apache.kafka.common.config.provider.FileConfigProvider",
    ).properties
    assert given["exactly.once.source.support"] == "enabled"
    assert given["value.converter"] == "org.apache.kafka.connect.storage.StringConverter"
    assert given["value.converter.schemas.enable"] == "false"
    assert given["connector.client.config.override.policy"] == "None"
    assert given["config.providers"] == "file"


def test_the_login_of_the_worker_is_that_of_the_java_worker_and_of_its_connectors_clients() -> None:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
    given = options(**login, sasl_username="ann", sasl_password='se"cret').properties
    jaas = given["sasl.jaas.config"]
    assert "ScramLoginModule" in jaas and 'username="ann"' in jaas and 'se\\"cret' in jaas
    for prefix in ("producer.", "consumer.", "admin."):
        assert given[f"{prefix}security.protocol"] == "SASL_PLAINTEXT"
        assert given[f"{prefix}sasl.jaas.config"] == jaas
    assert "sasl.password" not in given and "producer.sasl.password" not in given


def test_security_that_is_given_for_a_kind_of_clients_holds_for_it_alone() -> None:
    given = options(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="worker",
        sasl_password="x",
        producer_security_protocol="PLAINTEXT",
        producer_linger_ms="5",
    ).properties
    assert given["producer.security.protocol"] == "PLAINTEXT"
    assert given["producer.linger.ms"] == "5"
    assert "producer.sasl.jaas.config" not in given
    assert 'username="worker"' in given["consumer.sasl.jaas.config"]


def test_a_login_by_bearer_tokens_is_left_to_java() -> None:
    endpoint = "https://provider/token"
    made = options(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url=endpoint,
        sasl_jaas_config="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    )
    assert made.properties["sasl.oauthbearer.token.endpoint.url"] == endpoint
    assert made.properties["producer.sasl.mechanism"] == "OAUTHBEARER"
    assert made.system == {"org.apache.kafka.sasl.oauthbearer.allowed.urls": endpoint}


def test_properties_for_the_java_worker_alone_win() -> None:
    given = options(
        ottla_java_worker_session_timeout_ms="6000", ottla_java_worker_group_id="other"
    ).properties
    assert given["session.timeout.ms"] == "6000"
    assert given["group.id"] == "other"
    assert not [name for name in given if name.startswith("ottla.")]


def test_the_rest_password_is_the_groups_and_made_of_the_login() -> None:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "ann"}
    one, same, other = (options(**login, sasl_password=secret) for secret in ("a", "a", "b"))
    assert one.password == same.password != other.password
    assert one.password != options(**login, sasl_password="a", group_id="else").password
    assert one.password not in repr(one) and "jaas" not in repr(one)


@pytest.mark.parametrize("heap", ["512", "lots", "-1m", "1t", "m"])
def test_a_heap_that_java_would_not_take_is_refused(heap: str) -> None:
    with pytest.raises(ConfigError, match=r"ottla\.java\.heap"):
        options(ottla_java_heap=heap)


def test_the_jars_are_pinned_and_none_is_there_twice() -> None:
    jars = connect_jars()
    assert len({(jar.group, jar.artifact) for jar in jars}) == len(jars) > 50
    assert {"connect-runtime", "connect-mirror", "log4j-core"} <= {jar.artifact for jar in jars}
