"""Suites on a secured broker: which there are, how their clients come in, what the broker is set to."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, AclPermissionType, ResourceType
from conformance.access import PASSWORD, USER, Access, Listener, Way
from conformance.administer import acl_of
from conformance.suite import Suite, Target, in_every_way
from conformance.suites import load_suites

from conformance import access as secured

CLIENTS = (
    "confluent-kafka",
    "kcat",
    "java-client-4.4",
    "java-client-4.3",
    "java-client-3.9",
    "node-platformatic-kafka",
    "node-kafkajs",
    "go-sarama",
    "go-segmentio-kafka",
    "go-franz",
)


@pytest.fixture
def access(tmp_path: Path) -> Access:
    return Access.create(tmp_path / "certificates")


def target(tmp_path: Path, way: Way, access: Access | None) -> Target:
    return Target("ottla", "127.0.0.1:9092", tmp_path, tmp_path, tmp_path, way, access)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_comes_in_plaintext_by_sasl_ssl_and_by_mutual_tls(client: str) -> None:
    suites = load_suites()
    ways = [suites[f"{client}{end}"].way for end in ("", "-sasl-ssl", "-mtls")]
    assert ways == [Way.OPEN, Way.SASL_SSL, Way.MUTUAL]


@pytest.mark.parametrize("name", ["aiokafka", "kafka-python", "kafka-tools-security"])
def test_suites_that_look_for_other_listeners_run_on_a_secured_broker(name: str) -> None:
    assert load_suites()[name].way is Way.PLAINTEXT


def test_a_suite_in_every_way_differs_in_its_name_and_its_way_alone() -> None:
    suite = Suite("cats", "tests of cats", lambda target: (), settings=(("a", "b"),), needs=("cat",))
    for secured_suite in in_every_way(suite)[1:]:
        assert (secured_suite.run, secured_suite.settings, secured_suite.needs) == (
            suite.run,
            suite.settings,
            suite.needs,
        )


def test_programs_are_told_their_way_in_and_nothing_in_plaintext(tmp_path: Path, access: Access) -> None:
    assert target(tmp_path, Way.OPEN, None).environment() == {}
    assert target(tmp_path, Way.PLAINTEXT, access).environment() == {}
    logged_in = target(tmp_path, Way.SASL_SSL, access).environment()
    assert (logged_in["WALK_USER"], logged_in["WALK_PASSWORD"]) == (USER, PASSWORD)
    assert "WALK_KEY" not in logged_in
    mutual = target(tmp_path, Way.MUTUAL, access).environment()
    assert "WALK_USER" not in mutual
    # and the files are an authority and a certificate with its key
    context = ssl.create_default_context(cafile=mutual["WALK_CA"])
    context.load_cert_chain(mutual["WALK_CERTIFICATE"], mutual["WALK_KEY"])


def test_the_key_can_be_had_under_a_password(access: Access, tmp_path: Path) -> None:
    encrypted = tmp_path / "encrypted.pem"
    encrypted.write_bytes(access.encrypted_key("abc"))
    ssl.create_default_context().load_cert_chain(access.certificate, encrypted, password="abc")
    with pytest.raises(ssl.SSLError):
        ssl.create_default_context().load_cert_chain(access.certificate, encrypted, password="other")


def test_every_listener_has_a_protocol_and_those_of_sasl_the_users(access: Access) -> None:
    settings = access.settings()
    named = dict(each.split(":") for each in settings["listener.security.protocol.map"].split(","))
    assert set(named) == {"CONTROLLER", "PLAINTEXT", *(listener.value for listener in Listener)}
    assert len(set(access.addresses.values())) == len(Listener)
    for listener in ("sasl_plaintext", "sasl_ssl"):
        jaas = settings[f"listener.name.{listener}.plain.sasl.jaas.config"]
        assert all(f'user_{name}="' in jaas for name in (USER, *secured.OTHER_USERS))


@pytest.mark.parametrize(
    ("words", "kind", "name", "permission"),
    [
        ({"topic": "t", "allow_principal": "u"}, ResourceType.TOPIC, "t", AclPermissionType.ALLOW),
        ({"group": "g", "deny_principal": "u"}, ResourceType.GROUP, "g", AclPermissionType.DENY),
        (
            {"transactional_id": "x", "deny_principal": "u"},
            ResourceType.TRANSACTIONAL_ID,
            "x",
            AclPermissionType.DENY,
        ),
        (
            {"cluster": True, "deny_principal": "u"},
            ResourceType.BROKER,
            "kafka-cluster",
            AclPermissionType.DENY,
        ),
    ],
)
def test_acls_are_given_by_the_words_of_kafkas_command(words, kind, name, permission) -> None:
    found = acl_of({**words, "operation": "All"})
    assert (found[0], found[1], found[3], found[5], found[6]) == (
        kind,
        name,
        "User:u",
        AclOperation.ALL,
        permission,
    )
