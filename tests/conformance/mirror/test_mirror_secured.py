"""`ottla mirror` into a cluster that asks for SCRAM over TLS and has ACLs, its password from a file."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from support.clients.confluent import create_topic, eventually
from support.mirror.movers import Mover, read_log, until_equal, write
from support.mirror.processes import MirrorProcess, mm2_file
from support.servers.ottla_broker import OttlaBroker
from support.servers.secured_kafka import SCRAM, USER, secured_kafka

PARTITIONS = 2
USER_OF_MIRROR = "mirror"
PASSWORD = "of the mirror"
ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:broker;User:ANONYMOUS;User:{USER}",
}
RIGHTS = (
    (ResourceType.TOPIC, "*", AclOperation.ALL),
    (ResourceType.GROUP, "*", AclOperation.ALL),
    (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL),
    (ResourceType.BROKER, "kafka-cluster", AclOperation.ALL),
)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["ottla", "apache-kafka"])
@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_into_a_cluster_with_scram_and_acls(tmp_path: Path, kind: str, support: str) -> None:
    dice = random.Random()
    secured_directory = tmp_path / "secured"
    secured_directory.mkdir()
    with (
        OttlaBroker.start(tmp_path / "a") as a,
        secured_kafka(secured_directory, ACLS, kind=kind) as b,
    ):
        at_a = {"bootstrap.servers": a.bootstrap}
        at_b = {"bootstrap.servers": b.bootstrap, **b.client_options}
        asyncio.run(b.add_scram_user(USER_OF_MIRROR, PASSWORD))
        admin = AdminClient(at_b)
        rights = [
            AclBinding(
                kind_of,
                name,
                ResourcePatternType.LITERAL,
                f"User:{USER_OF_MIRROR}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for kind_of, name, operation in RIGHTS
        ]
        for made in admin.create_acls(rights).values():
            made.result(30)
        topic = create_topic(a.bootstrap, f"orders-{dice.getrandbits(32):x}", PARTITIONS)
        write(at_a, topic, dice, 1_000, PARTITIONS)
        mover = Mover.begin(at_a, "movers", topic, read_log(at_a, topic), dice)
        secrets = tmp_path / "secrets.properties"
        login = f'{SCRAM} required username=\\"{USER_OF_MIRROR}\\" password=\\"{PASSWORD}\\";'
        secrets.write_text(f"login={login}\n")
        security = {
            "A->B.enabled": "true",
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "B.security.protocol": "SASL_SSL",
            "B.sasl.mechanism": "SCRAM-SHA-512",
            "B.sasl.jaas.config": f"${{file:{secrets}:login}}",
            "B.ssl.truststore.type": "PEM",
            "B.ssl.truststore.location": str(secured_directory / "ca.pem"),
            "B.exactly.once.source.support": support,
        }
        file = mm2_file(tmp_path / "mm2.properties", {"A": a.bootstrap, "B": b.bootstrap}, security)
        remote = f"A.{topic}"
        with MirrorProcess.start(file) as mirror:
            eventually(lambda: remote in admin.list_topics(timeout=20).topics, f"{remote} is there", 90)
            until_equal(
                lambda: read_log(at_a, topic).values(),
                lambda: read_log(at_b, remote).values(),
                f"{topic} is copied",
            )
            mover.moved(at_b, remote, lambda: read_log(at_b, remote))
        assert PASSWORD not in mirror.log()
        assert PASSWORD not in str(read_log(at_b, "mm2-configs.A.internal").values())
