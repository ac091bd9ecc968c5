"""Reads and writes the quorum's control records: LeaderChange, kraft.version and voters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.core.quorum.api import (
    ListenerEndpoint,
    ReplicaKey,
    Voter,
    VoterSet,
)
from ottla.protocol.record_batch import (
    ControlRecordType,
    Record,
    control_record_type,
)
from ottla.protocol.records.kraft_version_record import KRaftVersionRecord
from ottla.protocol.records.leader_change_message import LeaderChangeMessage
from ottla.protocol.records.leader_change_message import Voter as LeaderChangeVoter
from ottla.protocol.records.voters_record import Endpoint, KRaftVersionFeature, VotersRecord
from ottla.protocol.records.voters_record import Voter as VoterEntry

MAX_VOTERS = 1000
"""The most voters that are read from a record; a real quorum has a handful."""

Control = tuple[ControlRecordType, bytes]


class LogControl(NamedTuple):
    """A record that changes the quorum: new voters or a new kraft.version, from its offset on."""

    offset: int
    value: VoterSet | int


def controls_of(records: Iterable[Record], offset: int | None = None) -> Iterator[LogControl]:
    """The voters and kraft.version records of a control batch; with
    `offset`, all are given that offset, as those of a snapshot are.
    """
    for record in records:
        at = record.offset if offset is None else offset
        match control_record_type(record):
            case ControlRecordType.KRAFT_VOTERS:
                yield LogControl(at, voter_set(VotersRecord.decode(record.value or b"", 0)))
            case ControlRecordType.KRAFT_VERSION:
                yield LogControl(at, KRaftVersionRecord.decode(record.value or b"", 0).kraft_version)
            case _:
                pass


def voter_set(record: VotersRecord) -> VoterSet:
    """The voters that a record names."""
    return VoterSet(
        tuple(
            Voter(
                ReplicaKey(each.voter_id, each.voter_directory_id),
                tuple(ListenerEndpoint(end.name, end.host, end.port) for end in each.endpoints),
                each.kraft_version_feature.min_supported_version,
                each.kraft_version_feature.max_supported_version,
            )
            for each in record.voters[:MAX_VOTERS]
        )
    )


def voters_record(voters: VoterSet) -> VotersRecord:
    """A record that names these voters, in the order of their ids."""
    return VotersRecord(
        version=0,
        voters=[
            VoterEntry(
                voter_id=each.key.node_id,
                voter_directory_id=each.key.directory_id,
                endpoints=[Endpoint(name=end.name, host=end.host, port=end.port) for end in each.endpoints],
                kraft_version_feature=KRaftVersionFeature(
                    min_supported_version=each.min_kraft_version,
                    max_supported_version=each.max_kraft_version,
                ),
            )
            for each in sorted(voters.voters, key=lambda voter: voter.key.node_id)
        ],
    )


def leader_change(leader_id: int, voters: Iterable[int], granting: Iterable[int]) -> Control:
    """The first record of an epoch."""
    message = LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[LeaderChangeVoter(voter_id=each) for each in sorted(voters)],
        granting_voters=[LeaderChangeVoter(voter_id=each) for each in sorted(granting)],
    )
    return ControlRecordType.LEADER_CHANGE, message.encode(0)


def kraft_version_control(version: int) -> Control:
    """The control record that sets kraft.version."""
    record = KRaftVersionRecord(version=0, kraft_version=version)
    return ControlRecordType.KRAFT_VERSION, record.encode(0)


def voters_control(voters: VoterSet) -> Control:
    """The control record that names the voters."""
    return ControlRecordType.KRAFT_VOTERS, voters_record(voters).encode(0)
