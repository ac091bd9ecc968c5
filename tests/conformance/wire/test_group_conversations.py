"""The conversations of the group protocol (tests/unit/groups/transcripts), spoken with a real broker.

Run with --oracle, this proves that the transcripts have Apache Kafka's answers.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from support.clients.group_wire import WireTranscript, can_run, comparable, is_ours_alone
from support.clients.wire import WireClient, wait_for
from support.core.group_transcripts import TRANSCRIPT_DIRECTORY
from support.servers.cluster import Cluster

TRANSCRIPTS = [
    path for path in sorted(TRANSCRIPT_DIRECTORY.glob("*.txt")) if can_run(path.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def topics(cluster: Cluster) -> None:
    """The topics of the transcripts, and the coordinator's own."""
    with WireClient.connect(cluster.bootstrap) as client:
        wait_for(lambda: _coordinator_answers(client))
        for name in ("t", "u", "v"):
            client.create_topic(name, partitions=3)


def _coordinator_answers(client: WireClient) -> bool:
    found = client.call(FindCoordinatorRequest(coordinator_keys=["g"])).coordinators[0]
    listed = client.call(ListGroupsRequest())
    return found.error_code == ErrorCode.NONE and listed.error_code == ErrorCode.NONE


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_real_broker_says_the_same(cluster: Cluster, topics: None, unique_name: str, path: Path) -> None:
    expected = path.read_text(encoding="utf-8")
    if cluster.name == "apache-kafka" and is_ours_alone(expected):
        pytest.skip(expected.splitlines()[0])
    with ExitStack() as stack:
        really = WireTranscript(cluster.bootstrap, f"{unique_name}-{path.stem}", expected, stack).run(
            expected
        )
    assert comparable(really) == comparable(expected)
