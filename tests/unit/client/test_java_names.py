"""Properties of Java's clients, as Confluent's files have them, reach our clients by librdkafka's names."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.client.java_names import librdkafka_properties, without_listeners_tls

JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="al\\\\ice" password="s\\"c;";'
)


def test_names_and_values_that_differ_are_translated() -> None:
    assert librdkafka_properties(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": JAAS,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca.pem",
            "ssl.truststore.password": "x",
            "ssl.keystore.type": "pem",
            "ssl.keystore.location": "/both.pem",
            "ssl.endpoint.identification.algorithm": "",
            "ssl.enabled.protocols": "TLSv1.3,TLSv1.2",
            "fetch.max.wait.ms": "50",
            "send.buffer.bytes": "-1",
            "max.request.size": "7",
            "buffer.memory": "33554432",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor,"
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "interceptor.classes": "com.example.X",
            "acks": "all",
        }
    ) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "al\\ice",
        "sasl.password": 's"c;',
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/both.pem",
        "ssl.key.location": "/both.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "fetch.wait.max.ms": "50",
        "socket.send.buffer.bytes": "0",
        "message.max.bytes": "7",
        "queue.buffering.max.kbytes": "32768",
        "partition.assignment.strategy": "range,cooperative-sticky",
        "acks": "all",
    }


def test_names_of_librdkafka_stay_as_they_are() -> None:
    given = {"security.protocol": "SSL", "ssl.ca.location": "/ca", "linger.ms": "5", "no.such": "1"}
    assert librdkafka_properties(given) == given


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"ssl.truststore.location": "/trust.jks"}, "ssl.truststore.type=JKS: stores of Java can't be read"),
        (
            {"ssl.keystore.location": "/keys", "ssl.keystore.type": "PKCS12"},
            "ssl.keystore.type=PKCS12: stores of Java can't be read",
        ),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "ssl.enabled.protocols=TLSv1.3: TLS versions can't be chosen"),
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol=SSLv3"),
        ({"sasl.jaas.config": "com.sun.Krb5LoginModule required keyTab=x;"}, "Krb5LoginModule is not known"),
        ({"sasl.jaas.config": "PlainLoginModule required;"}, "no username and password"),
        ({"sasl.jaas.config": "secret"}, "it is not MODULE required"),
        ({"buffer.memory": "much"}, "buffer.memory=much: it is not a number"),
    ],
)
def test_values_that_no_other_client_has_are_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ClientOptionError, match=problem):
        librdkafka_properties(given)


def test_any_user_and_password_come_out_of_a_jaas_text() -> None:
    dice = random.Random(7)
    letters = "ab \\\"';=,\t#{}$é"
    for _ in range(500):
        user, word = ("".join(dice.choices(letters, k=dice.randint(1, 9))) for _ in range(2))
        quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, word)]
        module = "org.apache.kafka.common.security." + dice.choice(
            ["plain.PlainLoginModule", "scram.ScramLoginModule"]
        )
        text = f'{module} required username="{quoted[0]}" password="{quoted[1]}";'
        found = librdkafka_properties({"sasl.jaas.config": text})
        assert (found["sasl.username"], found["sasl.password"]) == (user, word), text


def test_aiokafka_gets_the_credentials_of_a_jaas_text(tmp_path: Path) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}
    arguments = ClusterAccess("SASL_PLAINTEXT://a:1", properties).aiokafka()
    assert arguments["sasl_plain_username"] == "al\\ice"
    assert arguments["bootstrap_servers"] == ["a:1"]


@pytest.mark.parametrize(
    ("bootstrap", "protocol", "servers"),
    [
        ("PLAINTEXT://a:1", "PLAINTEXT", "a:1"),
        ("PLAINTEXT://a:1,PLAINTEXT://b:2", "PLAINTEXT", "a:1,b:2"),
        ("PLAINTEXT://a:1,SASL_PLAINTEXT://b:2,c:3", "PLAINTEXT", "a:1,c:3"),
        ("PLAINTEXT://a:1,sasl_plaintext://b:2,c:3", "sasl_plaintext", "b:2,c:3"),
        ("INSIDE://a:1", "PLAINTEXT", "a:1"),
        ("PLAINTEXT://[::1]:1", "SSL", "[::1]:1"),
    ],
)
def test_servers_of_another_protocol_are_left_out_where_others_are_given(
    bootstrap: str, protocol: str, servers: str
) -> None:
    access = ClusterAccess(bootstrap, {"security.protocol": protocol})
    assert access.librdkafka()["bootstrap.servers"] == servers


def test_the_tls_of_a_services_listeners_is_none_of_its_clients() -> None:
    own = {"ssl.keystore.location": "/k.p12", "ssl.client.authentication": "REQUIRED"}
    login = {"sasl.mechanism": "PLAIN"}
    assert without_listeners_tls({**own, **login}) == login
    plain = {**login, "security.protocol": "SASL_PLAINTEXT"}
    assert without_listeners_tls({**own, **plain}) == plain
    tls = {**login, "security.protocol": "sasl_ssl", "ssl.keystore.location": "/k.p12"}
    assert without_listeners_tls({**own, **tls}) == tls
