"""`ottla doctor` where clients log in over TLS: with rights to describe alone, and faults of security."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.client.access import ClusterAccess
from ottla.doctor.checks.table import CHECKS, chosen, parts_of
from ottla.doctor.examination import examine
from ottla.doctor.findings import Report
from ottla.doctor.limits import Limits
from ottla.doctor.reading.look import LookOptions
from ottla.doctor.reading.readers import look
from support.clients.ottla_command import done, ottla
from support.doctor.runs import doctor
from support.servers.cluster import free_port
from support.servers.secured_kafka import PASSWORD, USER, SecuredKafka, secured_kafka

VIEWER, VIEWER_PASSWORD = "viewer", "looks"
DAY_SECONDS = 86_400
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:broker;User:{USER};User:ANONYMOUS;User:CN=server;User:CN=client",
    "delegation.token.secret.key": "of all nodes",
}


def client_config(directory: Path, kafka: SecuredKafka, user: str, password: str) -> Path:
    """A file with the settings of a client that logs in as this user."""
    options = kafka.options_of("PLAIN", user, password)
    path = directory / f"{user}.properties"
    escaped = {name: value.replace("\\", "\\\\") for name, value in options.items()}
    path.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()), encoding="utf-8")
    return path


@contextmanager
def secured(directory: Path, kind: str, settings: dict[str, str]) -> Iterator[SecuredKafka]:
    """A broker with a listener in the clear on all addresses of the machine, too."""
    given = {
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT,OPEN:PLAINTEXT",
        **settings,
    }
    elsewhere = {"OPEN": f"{_address()}:{free_port()}"}
    users = {VIEWER: VIEWER_PASSWORD}
    with secured_kafka(directory, given, users, kind, more_listeners=elsewhere) as kafka:
        yield kafka


def _address() -> str:
    """An address of this machine that others reach; its loopback where it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def test_rights_to_describe_are_enough_and_refusals_are_told(cluster_kind: str, tmp_path: Path) -> None:
    with secured(tmp_path, cluster_kind, SETTINGS) as kafka:
        at = kafka.bootstrap
        admin = ("--command-config", str(client_config(tmp_path, kafka, USER, PASSWORD)))
        viewer = ("--command-config", str(client_config(tmp_path, kafka, VIEWER, VIEWER_PASSWORD)))
        done(at, "topic", "create", "orders", "--config", "retention.ms=-1", *admin)
        for place in (["--cluster"], ["--topic", "*"], ["--group", "*"], ["--transactional-id", "*"]):
            done(at, "acl", "create", "--principal", VIEWER, *place, "--operation", "describe", *admin)
        done(at, "token", "create", *admin)
        limits = ("--limit", "token_hours=1000", "--sample", "0.2")

        everything = doctor(at, *limits, *admin)
        everything.of("anonymous-super-user", "critical")
        everything.of("retention-unbounded", "warning", "orders")
        everything.of("tokens-ending", "warning")
        if _address() != "127.0.0.1":
            everything.of("listeners-in-the-clear", "warning")
        # the tests' certificates hold for a day
        assert "ends soon" in everything.of("certificates", "warning")["summary"]
        assert set(everything.not_made) == {"weak-acks"}

        run = doctor(at, *limits, *viewer)
        assert run.code == 3
        assert "certificates" in run.names(), "the listener that the user came in by was tried"
        hidden = {one.name for one in CHECKS if {"topic_settings", "broker_settings"} & set(one.reads)}
        assert hidden <= set(run.not_made)
        for name in ("retention-unbounded", "anonymous-super-user"):
            assert "AUTHORIZATION_FAILED" in run.not_made[name]
        seen = {"offline-partitions", "under-replicated", "disk-full", "quorum-behind", "group-abandoned"}
        assert seen.isdisjoint(run.not_made)


def test_a_certificate_that_has_ended_is_told(cluster_kind: str, tmp_path: Path) -> None:
    checks = chosen(["certificates", "no-authorizer", "advertised-unreachable"], [])

    async def examined(kafka: SecuredKafka, ahead_seconds: float) -> Report:
        access = ClusterAccess(kafka.bootstrap, kafka.client_options)
        options = LookOptions(now_ms=lambda: (time.time() + ahead_seconds) * 1_000)
        return examine(await look(access, parts_of(checks), options), checks, Limits())

    with secured(tmp_path, cluster_kind, {}) as kafka:
        for ahead_days, severity, words in (
            (0, "warning", "ends soon"),
            (2, "critical", "has ended"),
            (-3, "critical", "does not hold yet"),
        ):
            report = asyncio.run(examined(kafka, ahead_days * DAY_SECONDS))
            found = {check.name: finding for check, finding in report.findings()}
            assert found["certificates"].severity.value == severity
            assert words in found["certificates"].summary and "CN=server" in found["certificates"].summary
            assert len(found["certificates"].subjects) == 2, "of both listeners with TLS"
            assert found["no-authorizer"].subjects == ("1",)
            assert "advertised-unreachable" not in found


def test_a_user_that_is_refused_is_told_so(cluster_kind: str, tmp_path: Path) -> None:
    with secured(tmp_path, cluster_kind, {}) as kafka:
        config = client_config(tmp_path, kafka, USER, "guessed")
        run = ottla(kafka.bootstrap, "doctor", "-q", "--command-config", str(config))
        assert (run.code, run.out) == (1, "")
        assert "refuses the user" in run.err


def test_no_answer_is_an_error_and_no_finding() -> None:
    run = ottla(f"127.0.0.1:{free_port()}", "doctor")
    assert (run.code, run.out) == (1, "")
    assert "Connection refused" in run.err
