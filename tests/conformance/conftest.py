"""Fixtures of the conformance tests."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.clients.transcript import Transcript
from support.clients.wire import WireClient
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster
from support.servers.ottla_broker import OttlaBroker

OwnCluster = OttlaBroker | ApacheKafka


@pytest.fixture(autouse=True)
def told_group(request: pytest.FixtureRequest) -> None:
    """Print the group that a module has drawn, where it draws one: a failure shows it."""
    group = getattr(request.module, "GROUP", None)
    if group is not None:
        print(f"group {group}")


@pytest.fixture
def start_own(cluster: Cluster, tmp_path: Path) -> Callable[..., AbstractContextManager[OwnCluster]]:
    """Starts a node of the kind under test for one test alone, to be restarted, killed, set up differently.

    The function takes `settings` and returns a context manager.
    """
    kinds = {"ottla": OttlaBroker.start, "apache-kafka": ApacheKafka.start}
    return functools.partial(kinds[cluster.name], tmp_path / "own")


@pytest.fixture
def transcript(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Transcript]]:
    """A function that begins a conversation of the given name; at the end of the test it is compared."""
    record = bool(request.config.getoption("--record"))
    assert not record or cluster.name == "apache-kafka", "--record goes with --oracle-only"
    with WireClient.connect(cluster.bootstrap) as wire:
        begun: dict[str, Transcript] = {}

        def begin(name: str) -> Transcript:
            # of one length always: it stands in length-prefixed bytes too
            begun[name] = Transcript(wire, f"t{uuid.uuid4().hex[:12]}")
            return begun[name]

        yield begin
        for name, conversation in begun.items():
            conversation.check(name, record)
