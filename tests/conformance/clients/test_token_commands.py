"""Delegation tokens by `ottla token` and by Kafka's own tool, on ottla and on Apache Kafka: same story."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from support.clients.wire import wait_for
from support.java.java_tools import run_java
from support.servers.cluster import free_port
from support.servers.sasl_brokers import SCRAM_MODULE, scram_kafka, scram_ottla

TIMEOUT_S = 30
TOKEN_TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
SETTINGS = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "delegation.token.secret.key": "of all nodes",
}
KEYS = {"token_id", "hmac", "owner", "requester", "renewers", "issued_ms", "expires_ms", "max_ms"}


class Users:
    """alice and bob, whose passwords are their names, at a listener that asks for a login."""

    def __init__(self, secured: str, directory: Path) -> None:
        self.secured = secured
        self.directory = directory

    def properties(self, user: str, password: str | None = None, *, by_token: bool = False) -> Path:
        """A client's properties file, in Java's words."""
        token = "tokenauth=true" if by_token else ""
        file = self.directory / f"{user}.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            f'sasl.jaas.config={SCRAM_MODULE} required username="{user}" '
            f'password="{password or user}" {token};\n'
        )
        return file

    def token(self, user: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """`ottla token` as this user."""
        config = ("--bootstrap", self.secured, "--command-config", str(self.properties(user)))
        command = [sys.executable, "-m", "ottla", "token", *words, *config]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)

    def json(self, user: str, *words: str, stdin: str = "") -> Any:
        run = self.token(user, *words, "--json", stdin=stdin)
        assert (run.returncode, run.stderr) == (0, "")
        return [json.loads(line) for line in run.stdout.splitlines()]

    def tool(self, user: str, *words: str) -> str:
        """kafka-delegation-tokens.sh as this user; its output."""
        config = ("--bootstrap-server", self.secured, "--command-config", str(self.properties(user)))
        run = run_java(TOKEN_TOOL, *config, *words)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(scram_ottla, id="ottla"),
        pytest.param(scram_kafka, id="kafka", marks=[pytest.mark.java, pytest.mark.long]),
    ],
)
def users(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    directory: Path = tmp_path_factory.mktemp("tokens")
    with_sasl = free_port()
    with request.param(directory, with_sasl, SETTINGS) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for user in ("alice", "bob", "carol"):
            info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
            upsertion = UserScramCredentialUpsertion(user, info, user.encode())
            admin.alter_user_scram_credentials([upsertion])[user].result(TIMEOUT_S)
        yield Users(f"127.0.0.1:{with_sasl}", directory)


def test_a_token_is_made_described_renewed_and_ended(users: Users) -> None:
    (made,) = users.json("alice", "create", "--renewer", "User:bob", "--max-lifetime", "3600000")
    assert made.keys() == KEYS
    assert (made["owner"], made["requester"], made["renewers"]) == ("User:alice", "User:alice", ["User:bob"])
    assert made["max_ms"] == made["issued_ms"] + 3_600_000
    assert len(base64.b64decode(made["hmac"])) == 64

    # Apache Kafka answers before its broker knows the token.
    wait_for(lambda: users.json("bob", "describe", "--owner", "User:bob") == [made])
    assert users.json("carol", "describe", "--owner", "User:carol") == []

    refused = users.token("carol", "renew", "-", stdin=made["hmac"])
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "DELEGATION_TOKEN_OWNER_MISMATCH" in refused.stderr
    assert made["hmac"] not in refused.stderr

    (renewed,) = users.json("bob", "renew", "-", "--by", "1800000", stdin=made["hmac"] + "\n")
    assert renewed["expires_ms"] < made["expires_ms"]
    (later,) = users.json("bob", "expire", made["hmac"], "--in", "600000")
    assert later["expires_ms"] < renewed["expires_ms"]
    assert users.token("alice", "expire", "-", stdin=made["hmac"]).stdout == "the token has ended\n"
    gone = users.token("alice", "renew", "-", stdin=made["hmac"])
    assert "DELEGATION_TOKEN_NOT_FOUND" in gone.stderr


def test_a_token_is_shown_to_people(users: Users) -> None:
    run = users.token("alice", "create")
    assert (run.returncode, run.stderr) == (0, "")
    assert re.search(r"^owner +User:alice$", run.stdout, re.MULTILINE)
    hmac = re.search(r"^HMAC +(\S+)$", run.stdout, re.MULTILINE)
    assert hmac is not None
    table = users.token("alice", "describe").stdout
    assert hmac[1] in table and "User:alice" in table
    assert users.token("alice", "expire", "-", stdin=hmac[1]).returncode == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("renew", "no base64!"), "that is not the HMAC of a token"),
        (("create", "--renewer", "bob"), "bob is no principal: write it as User:bob"),
        (("create", "--renewer", "Group:g"), "INVALID_PRINCIPAL_TYPE"),
    ],
)
def test_mistakes_are_told(users: Users, words: tuple[str, ...], told: str) -> None:
    run = users.token("alice", *words)
    assert run.returncode == 1
    assert told in run.stderr


@pytest.mark.java
@pytest.mark.slow
def test_kafkas_tool_and_clients_use_tokens(users: Users) -> None:
    told = users.tool("alice", "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    found = re.search(r"^([\w-]{22})\s+(\S+={0,2})\s+User:alice", told, re.MULTILINE)
    assert found is not None, told
    token_id, hmac = found[1], found[2]
    assert token_id in users.tool("bob", "--describe", "--owner-principal", "User:bob")
    shown = users.json("alice", "describe", "--owner", "User:alice")
    assert (token_id, hmac) in [(each["token_id"], each["hmac"]) for each in shown]

    # a Java client gets in by the token, and makes no other one
    config = users.properties(token_id, hmac, by_token=True)
    listed = run_java(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", users.secured, "--command-config", str(config), "--list"),
    )
    assert listed.returncode == 0, listed.stdout + listed.stderr
    refused = run_java(
        TOKEN_TOOL,
        *("--bootstrap-server", users.secured, "--command-config", str(config)),
        *("--create", "--max-life-time-period", "-1"),
    )
    assert "DelegationTokenAuthorizationException" in refused.stdout + refused.stderr or (
        "not allowed" in refused.stdout + refused.stderr
    )

    renewed = users.tool("bob", "--renew", "--renew-time-period", "60000", "--hmac", hmac)
    assert "Completed renew operation" in renewed
    expired = users.tool("alice", "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert "Completed expire operation" in expired
    assert token_id not in users.tool("alice", "--describe", "--owner-principal", "User:alice")
