"""Workers that ask for certificates and passwords: their own requests get through, and nobody else's."""

from __future__ import annotations

import base64
import ssl
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.connect.workers import ConnectWorker, marks, until
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker
from support.web.secured_service import Files

pytestmark = pytest.mark.slow

TIMEOUT_S = 60
CONNECTORS = 4


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("keys"))


def users_file(directory: Path) -> Path:
    """The user alice with the password `secret`."""
    command = [sys.executable, "-m", "ottla", "user", "hash", "alice", "--method", "pbkdf2"]
    done = subprocess.run(
        command, input="secret\n", text=True, capture_output=True, check=True, timeout=TIMEOUT_S
    )
    path = directory / "users.properties"
    path.write_text(done.stdout, encoding="utf-8")
    return path


def basic(password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"alice:{password}".encode()).decode()}


@pytest.fixture
def workers(broker: OttlaBroker | ApacheKafka, files: Files, tmp_path: Path) -> Iterator[list[ConnectWorker]]:
    """Two workers of one group with TLS in both directions, and passwords besides."""
    group = f"secured-{uuid.uuid4().hex[:8]}"
    settings = {
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "status.storage.topic": f"{group}-status",
        "offset.storage.topic": f"{group}-offsets",
        "exactly.once.source.support": "enabled",
        "ssl.keystore.location": files.identity("worker"),
        "ssl.truststore.location": files.ca,
        "ssl.client.authentication": "REQUIRED",
        "authentication.method": "BASIC",
        "ottla.authentication.users.file": str(users_file(tmp_path)),
    }
    client = ssl.create_default_context(cafile=files.ca)
    client.load_cert_chain(files.identity("client"))
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                ConnectWorker.start(broker.bootstrap, tmp_path, settings, tls=client, headers=basic("secret"))
            )
            for _ in range(2)
        ]


def test_workers_pass_requests_on_and_sign_their_own(
    workers: list[ConnectWorker], files: Files, tmp_path: Path
) -> None:
    # Each of them is asked, so one passes each kind of request on to the other.
    for number in range(CONNECTORS):
        path = tmp_path / f"marks-{number}"
        config = {"tasks.max": "2", "test.partitions": "2", "test.marks": str(path)}
        assert workers[number % 2].put(f"c{number}", **config).status == 201
    # Connectors of both are planned, and their former tasks fenced: by signed requests, without a password.
    for worker in workers:
        for number in range(CONNECTORS):
            worker.wait_for(f"c{number}", "RUNNING", 2)
    hosts = {
        mark.pid
        for number in range(CONNECTORS)
        for mark in marks(tmp_path / f"marks-{number}")
        if mark.task == -1
    }
    assert len(hosts) == 2
    for number, worker in enumerate(workers):
        # A changed set of tasks, so that a round of fencing with producers comes before them.
        config = {"tasks.max": "3", "test.partitions": "3", "test.marks": str(tmp_path / "marks")}
        assert worker.put(f"c{number}", **config).status == 200
        worker.wait_for(f"c{number}", "RUNNING", 3)
        assert worker.ask("PUT", f"/connectors/c{number}/stop").status == 204
        worker.wait_for(f"c{number}", "STOPPED", 0)
        assert worker.ask("DELETE", f"/connectors/c{number}/offsets").status == 200
        assert worker.ask("DELETE", f"/connectors/c{number}").status == 204

    stranger = ssl.create_default_context(cafile=files.ca)
    for worker in workers:
        for headers in ({"Authorization": ""}, basic("guess")):
            assert worker.ask("GET", "/connectors", headers=headers).status == 401
            assert worker.ask("PUT", "/connectors/c2/pause", headers=headers).status == 401
        # What workers ask of each other goes without a password, and not without their signature.
        assert worker.ask("POST", "/connectors/c2/tasks", [], headers={"Authorization": ""}).status == 400
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ConnectWorker(worker.port, worker.server, stranger, basic("secret")).ask("GET", "/connectors")
        log = worker.server.log_path.read_text(encoding="utf-8")
        assert "secret" not in log and "guess" not in log


def test_the_follower_goes_on_after_the_leader(workers: list[ConnectWorker]) -> None:
    assert workers[1].put("c", **{"test.partitions": "2", "tasks.max": "2"}).status == 201
    workers[1].wait_for("c", "RUNNING", 2)  # one that is paused before it has tasks gets none
    workers[0].kill()
    # Passed on to a leader that is gone, until this worker leads; 500 where a connection has died with it.
    until(lambda: workers[1].ask("PUT", "/connectors/c/pause").status, lambda status: status == 202)
    workers[1].wait_for("c", "PAUSED", 2)
    until(lambda: workers[1].states("c"), lambda found: found == ("PAUSED", ["PAUSED"] * 2))
