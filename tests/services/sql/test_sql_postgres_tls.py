"""TLS of PostgreSQL's protocol, as psycopg meets it: verified servers, clients' certificates."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.sql.sql_server import TIMEOUT_S, SqlServer
from support.web.secured_service import Files

SSL_REQUEST = struct.pack(">II", 8, 80_877_103)
HOST = "broker.test"
"""What the certificates of these tests are for."""
STARTUP = struct.pack(">II", 17, 196_608) + b"user\0me\0\0"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    made = Files(tmp_path_factory.mktemp("keys"))
    for name in ("server", "reader", "stranger"):
        Path(made.identity(name)).chmod(0o600)  # libpq takes no other key
    return made


def identity(files: Files, name: str) -> str:
    return str(files.directory / f"{name}.pem")


def started(broker: OttlaBroker, files: Files, directory: Path, port: int, **settings: str) -> Any:
    given = {
        "ottla.sql.postgres.listen": f"127.0.0.1:{port}",
        "ssl.keystore.location": identity(files, "server"),
        **{name.replace("_", "."): text for name, text in settings.items()},
    }
    service_id = f"id{uuid.uuid4().hex[:8]}"
    return SqlServer.start(broker.bootstrap, directory, service_id, settings=given, scheme="https")


@pytest.fixture(scope="module")
def port(broker: OttlaBroker, files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    chosen = free_port()
    with started(broker, files, tmp_path_factory.mktemp("tls"), chosen):
        yield chosen


def connect(port: int, **others: Any) -> psycopg.Connection[Any]:
    place = {"host": HOST, "hostaddr": "127.0.0.1", "port": port, "dbname": "ottla", "user": "me"}
    return psycopg.connect(**{**place, "autocommit": True, "connect_timeout": 20, **others})


def test_a_client_verifies_the_server_and_its_connection_is_encrypted(port: int, files: Files) -> None:
    with connect(port, sslmode="verify-full", sslrootcert=files.ca) as client:
        assert client.pgconn.ssl_in_use
        assert client.execute("SELECT 1").fetchone() == (1,)
        name = f"S_{uuid.uuid4().hex[:8]}"
        client.execute(
            f"CREATE STREAM {name} (n INT) WITH (kafka_topic='{name}', value_format='json', partitions=1);"
        )
        client.execute("SET 'auto.offset.reset' = 'earliest';")
        client.execute(f"INSERT INTO {name} VALUES (7);")
        rows = client.cursor().stream(f"SELECT n FROM {name} EMIT CHANGES")
        assert next(rows) == (7,)
        client.cancel()  # libpq asks for it on a connection of its own
        with pytest.raises(psycopg.errors.QueryCanceled):
            list(rows)


def test_without_encryption_nobody_comes_in(port: int) -> None:
    with pytest.raises(psycopg.OperationalError, match="have to be encrypted here: sslmode=require"):
        connect(port, sslmode="disable")
    with connect(port, sslmode="prefer") as client:
        assert client.pgconn.ssl_in_use


def test_a_server_of_another_authority_or_host_is_not_believed(
    port: int, files: Files, tmp_path: Path
) -> None:
    other = Files(tmp_path, "another")
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
        connect(port, sslmode="verify-ca", sslrootcert=other.ca)
    with pytest.raises(psycopg.OperationalError, match="does not match host name"):
        connect(port, sslmode="verify-full", sslrootcert=files.ca, host="example.org")


def test_bytes_before_the_handshake_are_not_taken_for_encrypted_ones(port: int, files: Files) -> None:
    """Somebody between client and server could put them there."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as raw:
        raw.sendall(SSL_REQUEST + STARTUP)
        assert raw.recv(1) in (b"", b"S")
        context = ssl.create_default_context(cafile=files.ca)
        answered = b""
        with contextlib.suppress(OSError), context.wrap_socket(raw, server_hostname=HOST) as secured:
            answered = secured.recv(1)
        assert answered == b""
    with connect(port, sslmode="require") as client:
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_clients_are_known_by_their_certificates(broker: OttlaBroker, files: Files, tmp_path: Path) -> None:
    chosen = free_port()
    settings = {
        "ssl_client_authentication": "REQUIRED",
        "ssl_truststore_location": files.ca,
        "ottla_access_rules": "User:CN=reader read *",
    }
    with started(broker, files, tmp_path, chosen, **settings) as server:
        # The REST API of the same server: a client chooses HTTP/2 in the handshake, by ALPN.
        context = ssl.create_default_context(cafile=files.ca)
        context.load_cert_chain(identity(files, "reader"))
        for two, version in ((True, "HTTP/2"), (False, "HTTP/1.1")):
            with httpx.Client(verify=context, http2=two, timeout=TIMEOUT_S) as client:
                told = client.get(f"{server.url}/info")
                assert (told.status_code, told.http_version) == (200, version)

        def as_one(name: str) -> psycopg.Connection[Any]:
            pem = identity(files, name)
            return connect(chosen, sslmode="verify-full", sslrootcert=files.ca, sslcert=pem, sslkey=pem)

        with as_one("reader") as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
            with pytest.raises(psycopg.Error, match="User:CN=reader may not write"):
                client.execute("CREATE TYPE money AS DECIMAL(9, 2);")
        with pytest.raises(psycopg.OperationalError, match="may not read"):
            as_one("stranger")
        with pytest.raises(psycopg.OperationalError):
            connect(chosen, sslmode="verify-full", sslrootcert=files.ca)
