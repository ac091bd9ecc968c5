"""Secrets with marks, driven through a broker, the registry and the REST Proxy: no output has one of them.

Looked through are logs at the level of debugging, what clients are answered and told, command lines and
titles of processes, the words of starts that fail, and what processes print when they crash.
"""

from __future__ import annotations

import base64
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import httpx
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from support.identity_provider import AUDIENCE, ISSUER, IdentityProvider, served
from support.servers.cluster import ServerProcess, free_port
from support.servers.processes import descendants
from support.servers.tls_trial import Trial

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TIMEOUT_S = 60
OTTLA = [sys.executable, "-m", "ottla"]
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_numbers = itertools.count(1)


class Secrets:
    """Every secret that was given out, and where it is looked for."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self.seen: dict[str, str] = {}

    def make(self, what: str) -> str:
        """A secret that is like no other word."""
        return self.add(what, f"mark{next(_numbers)}x{os.urandom(6).hex()}")

    def add(self, what: str, secret: str) -> str:
        self.given[secret] = what
        return secret

    def look(self, place: str, text: str) -> None:
        """Something that was printed, answered or shown."""
        self.seen[place] = self.seen.get(place, "") + text

    def found(self) -> list[str]:
        """Each secret that was told, as it is, in Base64 or in hexadecimal digits, and the place."""
        told = []
        for secret, what in self.given.items():
            # all but the ends, which a neighbour's bits are part of in Base64
            coded = [base64.b64encode(b"\0" * shift + secret.encode())[4:-4].decode() for shift in range(3)]
            forms = [secret, secret.encode().hex(), *coded]
            told += [
                f"{what} in {place}"
                for place, text in self.seen.items()
                if any(form in text for form in forms)
            ]
        return told


def properties(path: Path, values: Mapping[str, str]) -> Path:
    """A properties file for its owner alone."""
    path.touch(0o600)
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path


def locked_identity(trial: Trial, password: str) -> Path:
    """A node's PEM file whose key has a password."""
    pem = trial.write("locked", trial.node()).read_bytes()
    key = load_pem_private_key(pem, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    certificates = pem[pem.index(b"-----BEGIN CERTIFICATE") :].partition(b"-----BEGIN PRIVATE")[0]
    path = trial.directory / "locked.pem"
    path.write_bytes(locked + certificates)
    return path


@contextmanager
def running(secrets: Secrets, name: str, config: Path, ready: str, log: Path) -> Iterator[ServerProcess]:
    """A process of ottla's that logs all it can, and is crashed at the end; all that it prints is seen."""
    command = [*OTTLA, name, "--config", str(config), "--log-level", "debug"]
    # a crash prints the stacks of its threads
    server = ServerProcess(
        command, ready, log, environment={"PYTHONFAULTHANDLER": "1", "PYTHONASYNCIODEBUG": "1"}
    )
    try:
        server.start()
        yield server
        secrets.look(f"the processes of {name}", "\n".join(commands_of(server.process.pid)))
        server.process.send_signal(signal.SIGABRT)
        server.process.wait(TIMEOUT_S)
    finally:
        if server.running:
            server.kill()
    deadline = time.monotonic() + TIMEOUT_S
    while "most recent call first" not in (text := log.read_text()):
        assert time.monotonic() < deadline, "the crash has printed nothing"
    secrets.look(f"the log of {name}", text)


def commands_of(pid: int) -> list[str]:
    """The command lines and titles of a process and its children."""
    own = Path(f"/proc/{pid}/cmdline").read_bytes().decode() + Path(f"/proc/{pid}/comm").read_text()
    return [own, *descendants(pid).values()]


def broker_settings(
    secrets: Secrets, trial: Trial, directory: Path, ports: tuple[int, int]
) -> dict[str, str]:
    key = secrets.make("the password of the node's key")
    prefix = "listener.name.sasl_ssl."
    users = {name: secrets.make(f"the password of {name}") for name in ("node", "plain")}
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "log.dirs": str(directory / "data"),
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},SASL_SSL://localhost:{ports[1]}",
        "ssl.keystore.location": str(locked_identity(trial, key)),
        "ssl.key.password": key,
        "ssl.truststore.location": str(trial.ca),
        "ssl.truststore.password": secrets.make("the password of the truststore"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        f"{prefix}plain.sasl.jaas.config": f'{PLAIN} required username="node" password="{users["node"]}" '
        f'user_node="{users["node"]}" user_plain="{users["plain"]}";',
        "ottla.format.add.scram": "SCRAM-SHA-256=[name=scram,password="
        f"{secrets.make('the password of the first SCRAM user')}]",
        "delegation.token.secret.key": secrets.make("the key of delegation tokens"),
        "sasl.oauthbearer.client.credentials.client.secret": secrets.make(
            "the node's secret at the provider"
        ),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "connection.failed.authentication.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "no.such.setting.password": secrets.make("an unknown setting"),
    }


def of_user(secrets: Secrets, user: str) -> str:
    (found,) = [secret for secret, what in secrets.given.items() if what == f"the password of {user}"]
    return found


def told_to_librdkafka(bootstrap: str, ca: Path, login: Mapping[str, Any]) -> str:
    """What a client that logs in, rightly or not, is told by errors, and by its answers."""
    told: list[object] = []
    access = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(ca),
        "error_cb": told.append,
        **login,
    }
    admin = AdminClient(access)
    for _ in range(TIMEOUT_S * 2):
        try:
            told.append(admin.list_topics(timeout=0.5).brokers)
        except confluent_kafka.KafkaException as problem:
            told.append(problem)
        admin.poll(0)
        if any(isinstance(each, dict) or _is_refusal(each) for each in told):
            break
    return repr([(each, getattr(each, "args", "")) for each in told])


def _is_refusal(told: object) -> bool:
    return isinstance(told, confluent_kafka.KafkaError) and told.code() in (
        confluent_kafka.KafkaError._AUTHENTICATION,
        confluent_kafka.KafkaError.SASL_AUTHENTICATION_FAILED,
    )


def log_in_and_fail(secrets: Secrets, bootstrap: str, ca: Path, provider: IdentityProvider) -> None:
    """Logins of every mechanism with good and with wrong credentials."""
    wrong = {name: secrets.make(f"a wrong password by {name}") for name in ("PLAIN", "SCRAM-SHA-256")}
    good = {"PLAIN": of_user(secrets, "plain"), "SCRAM-SHA-256": of_user(secrets, "altered")}
    users = {"PLAIN": "plain", "SCRAM-SHA-256": "altered"}
    for mechanism, passwords in (*good.items(), *wrong.items()):
        login = {"sasl.mechanism": mechanism, "sasl.username": users[mechanism], "sasl.password": passwords}
        secrets.look("what clients are told", told_to_librdkafka(bootstrap, ca, login))
    tokens = {
        "a good token": provider.token(),
        **{f"a token {name}": text for name, text in provider.wrong().items()},
    }
    for what, token in tokens.items():
        if len(token) < 20:
            continue
        # a token is known again by its signature, or else by its claims
        secrets.add(what, max(token.split(".")[1:], key=len)[10:60])
        login = {
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _, token=token: (token, time.time() + 3600),
        }
        if what in ("a good token", "a token expired", "a token unsigned"):
            secrets.look("what clients are told", told_to_librdkafka(bootstrap, ca, login))


def describe_and_alter(secrets: Secrets, admin: AdminClient) -> None:
    """Settings shown and changed, users and tokens made; what is answered is seen."""
    resource = ConfigResource(ResourceType.BROKER, "1")
    for _ in range(2):
        shown = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        words = [f"{entry!r} {entry.value} {entry.synonyms}" for entry in shown.values()]
        secrets.look("the answer to DescribeConfigs", "\n".join(words))
        changed = ConfigResource(
            ResourceType.BROKER,
            "1",
            incremental_configs=[
                confluent_kafka.admin.ConfigEntry(
                    name,
                    secrets.make(f"a new {name}"),
                    incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET,
                )
                for name in ("ssl.truststore.password", "listener.name.sasl_ssl.plain.sasl.jaas.config")
            ],
        )
        try:
            admin.incremental_alter_configs([changed])[changed].result(TIMEOUT_S)
        except confluent_kafka.KafkaException as refused:
            secrets.look("a refusal of AlterConfigs", repr(refused.args))
    password = secrets.make("the password of altered")
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("altered", info, password.encode())
    admin.alter_user_scram_credentials([upsertion])["altered"].result(TIMEOUT_S)
    told = admin.describe_user_scram_credentials(["altered"])["altered"].result(TIMEOUT_S)
    secrets.look("the answer to DescribeUserScramCredentials", repr(vars(told)))


def command(secrets: Secrets, *words: str, stdin: str = "") -> str:
    """What `ottla` prints, whatever its exit code."""
    run = subprocess.run(
        [*OTTLA, *words], input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    secrets.look(f"ottla {words[0]}", run.stdout + run.stderr)
    return run.stdout


def service_settings(secrets: Secrets, trial: Trial, bootstrap: str, users: Path, key: str) -> dict[str, str]:
    """What both services have: users, TLS with a locked key."""
    return {
        "ssl.keystore.location": str(trial.directory / "locked.pem"),
        "ssl.key.password": key,
        "authentication.method": "BASIC",
        "ottla.authentication.users.file": str(users),
        "ottla.access.rules": "User:web admin *",
    }


def ask_service(secrets: Secrets, url: str, ca: Path, paths: tuple[str, ...]) -> None:
    """Requests with the right password, a wrong one, a token, and one that is malformed."""
    context = __import__("ssl").create_default_context(cafile=str(ca))
    attempts: list[Any] = [
        ("web", of_user(secrets, "web")),
        ("web", secrets.make("a wrong password of web")),
        ("nobody", secrets.make("a password of nobody")),
    ]
    headers = [
        {"authorization": f"Bearer {secrets.make('a token at a service')}"},
        {"authorization": f"Basic {secrets.make('no Base64')}"},
    ]
    with httpx.Client(verify=context, timeout=TIMEOUT_S, trust_env=False) as web:
        for path in paths:
            answers = [web.get(url + path, auth=each) for each in attempts]
            answers += [web.get(url + path, headers=each) for each in headers]
            assert [each.status_code for each in answers] == [200, 401, 401, 401, 401], answers
            for answer in answers:
                secrets.look(f"the answers of {path}", f"{answer.headers} {answer.text}")


def failing_starts(secrets: Secrets, trial: Trial, directory: Path, good: Mapping[str, str]) -> None:
    """Starts with settings that can't be used; the words of each are seen."""
    prefix = "listener.name.sasl_ssl."
    wrongs = {
        "a wrong password of the key": {"ssl.key.password": secrets.make("a wrong password of the key")},
        "a login that is no JAAS": {f"{prefix}plain.sasl.jaas.config": secrets.make("no JAAS")},
        "a login without an end": {
            f"{prefix}plain.sasl.jaas.config": f'{PLAIN} required user_a="{secrets.make("no semicolon")}"'
        },
        "a password that is cut in two": {
            f"{prefix}plain.sasl.jaas.config": f"{PLAIN} required user_a=x {secrets.make('no quotes')};"
        },
        "a password before the module": {
            f"{prefix}plain.sasl.jaas.config": f"{secrets.make('no module')} {PLAIN} required user_a=x;"
        },
        "a first user that is none": {
            "ottla.format.add.scram": f"SCRAM-SHA-256=[name=x;password={secrets.make('no comma')}]"
        },
        "a key that is none": {
            "ssl.keystore.location": "",
            "ssl.keystore.key": secrets.make("no PEM"),
            "ssl.keystore.certificate.chain": "x",
        },
    }
    for what, wrong in wrongs.items():
        own = {**good, **wrong, "log.dirs": str(directory / f"failing-{next(_numbers)}")}
        config = properties(directory / "failing.properties", own)
        run = subprocess.run(
            [*OTTLA, "broker", "--config", str(config), "--log-level", "debug"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert run.returncode != 0, what
        secrets.look(f"the start with {what}", run.stdout + run.stderr)


def test_no_secret_is_told_anywhere(tmp_path: Path) -> None:
    secrets, trial, provider = Secrets(), Trial.create(tmp_path / "tls"), IdentityProvider()
    ports = free_port(), free_port()
    bootstrap, secured = f"127.0.0.1:{ports[0]}", f"localhost:{ports[1]}"
    settings = broker_settings(secrets, trial, tmp_path, ports)
    with ExitStack() as stack:
        keys = stack.enter_context(served(provider))
        settings["sasl.oauthbearer.jwks.endpoint.url"] = keys.key_set_url
        config = properties(tmp_path / "broker.properties", settings)
        stack.enter_context(running(secrets, "broker", config, "ottla broker ready", tmp_path / "broker.log"))
        describe_and_alter(secrets, AdminClient({"bootstrap.servers": bootstrap}))
        log_in_and_fail(secrets, secured, trial.ca, provider)

        client = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(trial.ca),
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "altered",
            "sasl.password": of_user(secrets, "altered"),
        }
        own = properties(tmp_path / "client.properties", client)
        wrong = {**client, "sasl.password": secrets.make("a wrong password of a command")}
        other = properties(tmp_path / "other.properties", wrong)
        where = ("--bootstrap", secured, "--command-config")
        assert "ssl.key.password" in command(
            secrets, "config", "describe", "broker", "1", "--all", *where, str(own)
        )
        command(secrets, "topic", "list", *where, str(other))
        made = secrets.make("a password by ottla user")
        command(secrets, "user", "create", "another", "--password-file", "-", *where, str(own), stdin=made)

        users = tmp_path / "users"
        users.write_text(
            command(secrets, "user", "hash", "web", stdin=secrets.make("the password of web") + "\n")
        )
        key = settings["ssl.key.password"]
        for name, prefix, paths in (
            ("registry", "kafkastore.", ("/subjects", "/config")),
            ("rest", "client.", ("/topics", "/v3/clusters")),
        ):
            port = free_port()
            jaas = f'{SCRAM} required username="altered" password="{of_user(secrets, "altered")}";'
            logged_in = {**client, "sasl.jaas.config": jaas}
            del logged_in["sasl.username"], logged_in["sasl.password"]
            given = {
                **service_settings(secrets, trial, secured, users, key),
                "listeners": f"https://localhost:{port}",
                f"{'kafkastore.' if name == 'registry' else ''}bootstrap.servers": f"SASL_SSL://{secured}",
                **{prefix + each: value for each, value in logged_in.items()},
            }
            file = properties(tmp_path / f"{name}.properties", given)
            stack.enter_context(running(secrets, name, file, f"ottla {name} ready", tmp_path / f"{name}.log"))
            ask_service(secrets, f"https://localhost:{port}", trial.ca, paths)
    failing_starts(secrets, trial, tmp_path, settings)
    for file in (tmp_path / "data").rglob("*"):
        # passwords are kept as keys of SCRAM; what AlterConfigs sets is kept as it was set, as in Kafka
        if file.is_file():
            secrets.look("the broker's files", file.read_bytes().decode("latin-1"))
    found = [each for each in secrets.found() if not (each.startswith("a new ") and "files" in each)]
    assert len(secrets.given) > 30
    assert not found
