"""Commands that ask a cluster: where they find it, and how they get in where it wants TLS and a password."""

from __future__ import annotations

import contextlib
import json
import re
import socketserver
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.protocol.apis import ApiKey, request_class
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_request_header, encode_response
from ottla.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from ottla.protocol.schema import Message
from support.servers.certificates import Authority
from support.servers.cluster import free_port

USER, PASSWORD = "me", 'with = and "quotes"'
SERVED = {
    ApiKey.API_VERSIONS: 0,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.SASL_AUTHENTICATE: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
}
MOVES = [{"topic": "orders", "partition": 3, "replicas": [1, 2], "adding": [2], "removing": []}]


@dataclass(slots=True)
class ScriptedBroker:
    """Answers one request, after TLS and SASL where it is told to ask for them."""

    port: int = 0
    client_ids: set[str | None] = field(default_factory=set)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer(self, key: ApiKey, body: Any) -> Message:
        match key:
            case ApiKey.API_VERSIONS:
                return ApiVersionsResponse(
                    api_keys=[
                        ApiVersion(api_key=each, min_version=version, max_version=version)
                        for each, version in SERVED.items()
                    ]
                )
            case ApiKey.SASL_HANDSHAKE:
                return SaslHandshakeResponse(mechanisms=["PLAIN"])
            case ApiKey.SASL_AUTHENTICATE:
                # an identity to act as may stand in front
                known = body.auth_bytes.split(b"\0")[1:] == [USER.encode(), PASSWORD.encode()]
                code = ErrorCode.NONE if known else ErrorCode.SASL_AUTHENTICATION_FAILED
                return SaslAuthenticateResponse(
                    error_code=code, error_message=None if known else "who are you?", auth_bytes=b""
                )
        moved = OngoingPartitionReassignment(
            partition_index=3, replicas=[1, 2], adding_replicas=[2], removing_replicas=[]
        )
        return ListPartitionReassignmentsResponse(
            topics=[OngoingTopicReassignment(name="orders", partitions=[moved])]
        )


@contextmanager
def scripted_broker(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedBroker]:
    broker = ScriptedBroker()

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                connection = self.request if tls is None else tls.wrap_socket(self.request, server_side=True)
                with connection, connection.makefile("rb") as frames:
                    while size := int.from_bytes(frames.read(4), "big"):
                        frame = frames.read(size)
                        header, position = decode_request_header(frame)
                        key, version = ApiKey(header.api_key), header.api_version
                        broker.client_ids.add(header.client_id)
                        body = request_class(key).decode(frame, version, position)
                        answer = broker.answer(key, body)
                        encoded = encode_response(key, version, header.correlation_id, answer)
                        connection.sendall(len(encoded).to_bytes(4, "big") + encoded)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Connection) as server:
        broker.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield broker
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ca.pem and server.pem."""
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority(directory, "authority")
    identity = authority.identity("server")
    (directory / "ca.pem").write_text(authority.pem)
    (directory / "server.pem").write_text(identity.certificate + identity.key)
    return directory


@pytest.fixture
def secured(tls_files: Path) -> Iterator[ScriptedBroker]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tls_files / "server.pem")
    with scripted_broker(tls) as broker:
        yield broker


def client_properties(directory: Path, tls_files: Path, bootstrap: str) -> str:
    """A file of settings for a client that gets in."""
    settings = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(tls_files / "ca.pem"),
    }
    path = directory / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def test_a_command_gets_into_a_cluster_behind_tls_and_a_password(
    secured: ScriptedBroker, tls_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = client_properties(tmp_path, tls_files, secured.bootstrap)
    assert main(["partition", "list", "--command-config", config, "--json"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == (MOVES, "")
    assert "ottla-cli" in secured.client_ids


def test_a_wrong_password_is_told_in_one_line(
    secured: ScriptedBroker, tls_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = client_properties(tmp_path, tls_files, secured.bootstrap)
    assert main(["partition", "list", "--command-config", config, "--set", "sasl.password=guessed"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert re.match(f"ottla partition list: {secured.bootstrap} refuses the user: .*who are you", line)


def test_a_broker_with_a_certificate_of_a_stranger_is_not_asked(
    secured: ScriptedBroker, tls_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = client_properties(tmp_path, tls_files, secured.bootstrap)
    (tmp_path / "stranger.pem").write_text(Authority(tmp_path, "stranger").pem)
    trust = f"ssl.ca.location={tmp_path}/stranger.pem"
    assert main(["partition", "list", "--command-config", config, "--set", trust]) == 1
    assert re.search(r"cannot be reached.*CERTIFICATE_VERIFY_FAILED", capsys.readouterr().err)


def test_the_first_server_that_answers_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_broker() as broker:
        servers = f"127.0.0.1:{free_port()},{broker.bootstrap}"
        assert main(["partition", "list", "--bootstrap", servers, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == MOVES


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--bootstrap", "nowhere:x"], "'nowhere:x' is not HOST:PORT"),
        (["--bootstrap", "no..where:1"], "'no..where:1' is not HOST:PORT"),
        (["--bootstrap", "ü..:1"], "'ü..:1' is not HOST:PORT"),
        (["--set", "sasl.jaas.config=x"], "sasl.jaas.config: it is not MODULE required NAME=VALUE"),
        (["--set", "security.protocol=SASL_SSL"], "needs sasl.username and sasl.password"),
        (["--set", "security.protocol=TLS"], "security.protocol=TLS: must be one of PLAINTEXT, SSL"),
        (
            ["--command-config", "/nowhere/client.properties"],
            "/nowhere/client.properties: can't read it: No such file",
        ),
    ],
)
def test_settings_that_cannot_be_are_told_before_a_server_is_asked(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["partition", "list", *words]) == 1
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    "program", ["from ottla.cli.main import main; main(['--help'])", "import ottla.cli.servers.broker"]
)
def test_the_help_and_the_broker_load_no_kafka_client(program: str) -> None:
    # given: they start in a tenth of a second
    program = f"import sys; {program}; print(*sys.modules)"

    # when
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    # then
    loaded = run.stdout.split()
    assert "ottla.cli.main" in loaded or "ottla.cli.servers.broker" in loaded
    assert not [name for name in loaded if name.startswith(("aiokafka", "confluent_kafka"))]


def test_commands_that_ask_a_cluster_load_no_broker() -> None:
    program = "import sys, ottla.cli.cluster.partition, ottla.cli.cluster.quorum; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert not [name for name in run.stdout.split() if name.startswith("ottla.broker")]
