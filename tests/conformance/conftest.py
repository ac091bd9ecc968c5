"""Fixtures of the conformance tests."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from support.cluster import Cluster
from support.transcript import Transcript
from support.wire import WireClient


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
