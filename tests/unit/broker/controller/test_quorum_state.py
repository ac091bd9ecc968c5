"""The file with this node's vote, in the forms that Kafka writes and reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.broker.controller.quorum_state import read_quorum_state, write_quorum_state
from ottla.core.quorum.api import ElectionState, ReplicaKey
from ottla.protocol.schema import ZERO_UUID
from ottla.storage.checkpoints import uuid_from_text
from ottla.storage.log_directory import LogDirectoryError

DIRECTORY = "J8aAPcfLQt2bqs1JT_rMgQ"

#: As Apache Kafka 4.3 writes them.
KAFKAS = {
    "voted_0": (
        '{"clusterId":"","leaderId":-1,"leaderEpoch":2,"votedId":3,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}',
        ElectionState(epoch=2, voted=ReplicaKey(3, ZERO_UUID)),
    ),
    "leader_0": (
        '{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}',
        ElectionState(epoch=2, leader_id=1),
    ),
    "voted_1": (
        f'{{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"{DIRECTORY}","data_version":1}}',
        ElectionState(epoch=2, voted=ReplicaKey(1, uuid_from_text(DIRECTORY))),
    ),
    "leader_1": (
        '{"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",'
        '"data_version":1}',
        ElectionState(epoch=2, leader_id=1),
    ),
}


@pytest.mark.parametrize("form", KAFKAS)
def test_kafkas_forms_are_read_and_written(tmp_path: Path, form: str) -> None:
    text, state = KAFKAS[form]
    (tmp_path / "quorum-state").write_text(text)
    assert read_quorum_state(tmp_path) == state
    (tmp_path / "quorum-state").unlink()
    write_quorum_state(tmp_path, state, kraft_version=int(form[-1]), voter_ids=[3, 1, 2])
    assert (tmp_path / "quorum-state").read_text() == text
    assert json.loads(text)["data_version"] == int(form[-1])


def test_a_node_that_never_voted_has_no_file(tmp_path: Path) -> None:
    assert read_quorum_state(tmp_path) is None


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        '{"leaderEpoch":',
        "[]",
        '{"leaderId":1,"data_version":1}',
        '{"leaderEpoch":-1,"data_version":1}',
        '{"leaderEpoch":"1","data_version":1}',
        '{"leaderEpoch":1,"leaderId":-2,"data_version":1}',
        '{"leaderEpoch":1,"votedId":1,"votedDirectoryId":"x","data_version":1}',
        '{"leaderEpoch":1,"data_version":2}',
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "quorum-state").write_text(damaged)
    with pytest.raises(LogDirectoryError, match="quorum-state is damaged"):
        read_quorum_state(tmp_path)
