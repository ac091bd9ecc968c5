"""Schemas that take long to compare: no other request waits, and the work ends with its client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

VERSIONS = 60
"""Versions that take a second or more each to compare with: together more than a test may wait for."""
WAIT_SECONDS = 60
HUNG_UP_SECONDS = 1.0
JSON = {"schemaType": "JSON"}


def alternatives(number: int, members: int = 130, *, backward: bool = False) -> dict[str, Any]:
    """Compatible with others of its kind; in the other order, only after each was compared with each."""
    ones = [
        {
            "type": "object",
            "required": [f"k{each}"],
            "properties": {f"k{each}": {"type": "string"}, "a": {"title": f"{number}"}},
        }
        for each in range(members)
    ]
    return {"schema": json.dumps({"anyOf": ones[::-1] if backward else ones}), **JSON}


@pytest.fixture
def pair(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> Iterator[tuple[ServiceProcess, ServiceProcess]]:
    """The primary and an instance that forwards; neither gives up by itself within this test."""
    own = {
        "kafkastore.topic": f"_{unique_name}",
        "schema.registry.group.id": unique_name,
        "kafkastore.timeout.ms": "600000",
    }
    follower = {**own, "leader.eligibility": "false"}
    with (
        ServiceProcess.start("registry", broker.bootstrap, tmp_path, own) as primary,
        ServiceProcess.start("registry", broker.bootstrap, tmp_path, follower) as other,
    ):
        yield primary, other


@contextmanager
def asked_in_vain(url: str, body: dict[str, Any]) -> Iterator[threading.Thread]:
    """A client that hangs up after a while without an answer; the block ends when it has."""
    hung_up: list[bool] = []

    def ask() -> None:
        try:
            httpx.post(url, json=body, timeout=HUNG_UP_SECONDS)
        except httpx.TimeoutException:
            hung_up.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    yield thread
    thread.join(WAIT_SECONDS)
    assert hung_up == [True], "it was answered"


@pytest.mark.slow
def test_others_register_meanwhile_and_the_work_ends_with_its_clients(
    pair: tuple[ServiceProcess, ServiceProcess],
) -> None:
    primary, follower = pair
    # given a subject of many versions, each of them long to compare
    versions = f"{primary.url}/subjects/heavy/versions"
    httpx.put(f"{primary.url}/config/heavy", json={"compatibility": "NONE"}, timeout=WAIT_SECONDS)
    for number in range(VERSIONS):
        added = httpx.post(versions, json=alternatives(number, backward=True), timeout=WAIT_SECONDS)
        assert added.status_code == 200, added.text
    httpx.put(f"{primary.url}/config/heavy", json={"compatibility": "FULL_TRANSITIVE"}, timeout=WAIT_SECONDS)
    wanted = alternatives(VERSIONS)
    # when more clients than there are threads ask for long work, of both instances, and hang up
    for instance in (primary, follower, primary):
        with asked_in_vain(f"{instance.url}/subjects/heavy/versions", wanted):
            other = httpx.post(
                f"{instance.url}/subjects/other/versions",
                json={"schema": '{"type":"string"}', **JSON},
                timeout=WAIT_SECONDS,
            )
            assert other.status_code == 200
        with asked_in_vain(f"{instance.url}/compatibility/subjects/heavy/versions", wanted):
            pass
    # then there are threads for others: this comparison is put off too
    modest = f"{follower.url}/subjects/modest/versions"
    for backward in (False, True):
        added = httpx.post(modest, json=alternatives(1, 60, backward=backward), timeout=WAIT_SECONDS)
        assert added.status_code == 200, added.text
