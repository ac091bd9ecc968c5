"""The file `quorum-state`: the newest epoch, its leader and this node's vote, in Kafka's JSON.

data_version 1 belongs to kraft.version 1: {leaderId, leaderEpoch, votedId, votedDirectoryId}. data_version 0
to kraft.version 0: no directories, but the voters' ids. Either is read whatever the log says. The file is
replaced as a whole and synced before any promise in it leaves this node.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ottla.core.quorum.api import NO_NODE, ElectionState, ReplicaKey
from ottla.protocol.schema import ZERO_UUID
from ottla.storage.checkpoints import uuid_from_text, uuid_to_text
from ottla.storage.errors import LogDirectoryError
from ottla.storage.files import replace_file

QUORUM_STATE_FILE = "quorum-state"
MAX_QUORUM_STATE_BYTES = 64 * 1024


def read_quorum_state(directory: Path) -> ElectionState | None:
    """The state in the file; None if there is none. Raises LogDirectoryError for one that is damaged."""
    file = directory / QUORUM_STATE_FILE
    try:
        with file.open("rb") as opened:
            return _election_state(json.loads(opened.read(MAX_QUORUM_STATE_BYTES)))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDirectoryError(f"{file} is damaged ({error}): put a good copy in its place") from None


def write_quorum_state(
    directory: Path, state: ElectionState, *, kraft_version: int, voter_ids: Iterable[int]
) -> None:
    """Replace the file; on the disk when this returns. Raises OSError."""
    voted_id = NO_NODE if state.voted is None else state.voted.node_id
    content: dict[str, Any]
    if kraft_version == 0:
        content = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter_id} for voter_id in sorted(voter_ids)],
            "data_version": 0,
        }
    else:
        voted_directory_id = ZERO_UUID if state.voted is None else state.voted.directory_id
        content = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "votedDirectoryId": uuid_to_text(voted_directory_id),
            "data_version": 1,
        }
    data = json.dumps(content, separators=(",", ":")).encode()
    replace_file(directory / QUORUM_STATE_FILE, data, sync=True)


def _election_state(content: Any) -> ElectionState:
    version = _number(content, "data_version", 1, smallest=0)
    if version > 1:
        raise ValueError(f"data_version {version} is not known")
    voted_id = _number(content, "votedId", NO_NODE)
    voted = None
    if voted_id != NO_NODE:
        directory_id = content.get("votedDirectoryId")
        voted = ReplicaKey(voted_id, ZERO_UUID if directory_id is None else uuid_from_text(directory_id))
    return ElectionState(
        epoch=_number(content, "leaderEpoch", None, smallest=0),
        leader_id=_number(content, "leaderId", NO_NODE),
        voted=voted,
    )


def _number(content: Any, name: str, default: int | None, *, smallest: int = NO_NODE) -> int:
    value = content[name] if default is None else content.get(name, default)
    if not isinstance(value, int) or value < smallest:
        raise ValueError(f"{name} is {value!r}")
    return value
