"""Links to sources behind TLS and logins, with ACLs on both sides; secrets are nowhere to be seen."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from support.clients.confluent import TIMEOUT_S, admin_client, eventually, topic_exists
from support.clients.ottla_command import done, ottla
from support.clients.whole_topics import read_everything
from support.links.mirrors import describe, wait_for
from support.servers.ottla_broker import OttlaBroker
from support.servers.secured_kafka import PASSWORD, PLAIN, USER, secured_kafka

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{USER};User:broker;User:ANONYMOUS;User:CN=client",
}
KINDS = ["ottla", pytest.param("apache-kafka", marks=[pytest.mark.java, pytest.mark.long])]


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.mark.parametrize("kind", KINDS)
def test_a_secured_source_is_copied_with_its_acls_and_secrets_stay_secret(tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "source"
    directory.mkdir()
    topic, user = f"t{uuid.uuid4().hex[:8]}", f"User:u{uuid.uuid4().hex[:6]}"
    with (
        secured_kafka(directory, AUTHORIZER, kind=kind) as source,
        OttlaBroker.start(tmp_path / "target", settings=AUTHORIZER) as target,
    ):
        options = {"bootstrap.servers": source.bootstrap, **source.client_options}
        admin = AdminClient(options)
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)
        binding = AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, user, "*",
            AclOperation.READ, AclPermissionType.ALLOW,
        )  # fmt: skip
        for each in admin.create_acls([binding]).values():
            each.result(TIMEOUT_S)
        producer = Producer(options)
        for number in range(100):
            producer.produce(topic, b"%d" % number)
        assert producer.flush(TIMEOUT_S) == 0

        trust = f"ssl.truststore.location={directory / 'ca.pem'}"
        login = f"sasl.jaas.config={PLAIN} required username={USER} password={quoted(PASSWORD)};"
        wrong = f"sasl.jaas.config={PLAIN} required username={USER} password=wrong;"
        words = ("--source", source.bootstrap, "--topic", topic, "--interval-ms", "200")
        common = ("security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "ssl.truststore.type=PEM", trust)
        settings = [word for each in common for word in ("--source-set", each)]
        bad = f"bad{uuid.uuid4().hex[:6]}"
        done(target.bootstrap, "link", "create", bad, *words, *settings, "--source-set", wrong)
        wait_for(
            lambda: "login failed" in str(describe(target.bootstrap, bad)["problems"]), "the problem is told"
        )
        done(target.bootstrap, "link", "delete", bad, "--yes")

        link = f"lk{uuid.uuid4().hex[:6]}"
        done(target.bootstrap, "link", "create", link, *words, *settings, "--source-set", login)
        eventually(lambda: topic_exists(target.bootstrap, topic), "it is there")
        eventually(lambda: len(read_everything(target.bootstrap, topic)) == 100, "all is copied")

        def has_acl() -> bool:
            wanted = AclBindingFilter(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, user, None,
                AclOperation.ANY, AclPermissionType.ANY,
            )  # fmt: skip
            return len(admin_client(target.bootstrap).describe_acls(wanted).result(TIMEOUT_S)) == 1

        eventually(has_acl, "the ACL is there")
        for run in (
            ottla(target.bootstrap, "link", "describe", "--json", link),
            ottla(target.bootstrap, "config", "describe", "--json", "broker", "--all"),
            ottla(target.bootstrap, "consume", "_ottla_links", "--json", "--from", "start", "--exit"),
        ):
            assert PASSWORD not in run.out and 'with \\"quotes' not in run.out, run
        assert PASSWORD not in (tmp_path / "target.log").read_text()


def test_a_certificate_is_a_login_and_other_settings_are_refused(tmp_path: Path) -> None:
    directory = tmp_path / "source"
    directory.mkdir()
    topic = f"t{uuid.uuid4().hex[:8]}"
    with (
        secured_kafka(directory, AUTHORIZER, kind="ottla") as source,
        OttlaBroker.start(tmp_path / "target") as target,
    ):
        options = {"bootstrap.servers": source.bootstrap, **source.client_options}
        admin = AdminClient(options)  # one that is collected fails its own futures
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)
        producer = Producer(options)
        for number in range(50):
            producer.produce(topic, b"%d" % number)
        assert producer.flush(TIMEOUT_S) == 0
        link = f"lk{uuid.uuid4().hex[:6]}"
        file = tmp_path / "client.properties"
        file.write_text(
            "security.protocol=SSL\n"
            f"ssl.keystore.location={directory / 'client.pem'}\nssl.keystore.type=PEM\n"
            f"ssl.truststore.location={directory / 'ca.pem'}\nssl.truststore.type=PEM\n"
        )
        words = ("--topic", topic, "--interval-ms", "200", "--no-acls", "--source-config", str(file))
        done(target.bootstrap, "link", "create", link, "--source", source.mutual_bootstrap, *words)
        eventually(lambda: topic_exists(target.bootstrap, topic), "it is there")
        eventually(lambda: len(read_everything(target.bootstrap, topic)) == 50, "all is copied")
        refused = ottla(
            target.bootstrap, "link", "create", "scram", "--source", source.bootstrap, "--topic", topic,
            "--source-set", "bootstrap.servers=x:1",
        )  # fmt: skip
        assert refused.code == 2 and "security alone" in refused.err, refused
