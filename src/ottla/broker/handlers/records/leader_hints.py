"""Names the leader to a client that is at the wrong broker, or has an old leader epoch (KIP-951).

Answers to Produce from v10 and Fetch from v16 on carry it: the partition's leader and epoch, and once for all
of the answer's partitions the addresses of the leaders named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ottla.broker.network.context import RequestContext
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

HINTED = frozenset({int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH)})
"""The errors that are answered with a hint."""


class LeaderAddress(NamedTuple):
    """The address of a leader through the client's listener."""

    node_id: int
    host: str
    port: int
    rack: str | None


class LeaderHint(NamedTuple):
    """A partition's leader; its address is None while it is fenced or has no such listener."""

    leader_id: int
    leader_epoch: int
    address: LeaderAddress | None


def leader_hint(node: Node, context: RequestContext, topic: str | UUID, partition: int) -> LeaderHint | None:
    """The partition's leader by the metadata; None for an unknown partition."""
    image = node.image
    known_topic = image.topics_by_id.get(topic) if isinstance(topic, UUID) else image.topics.get(topic)
    known = None if known_topic is None else known_topic.partitions.get(partition)
    if known is None:
        return None
    address = None
    registered = image.brokers.get(known.leader)
    if registered is not None and not registered.fenced:
        endpoint = registered.endpoint(context.session.listener_name)
        if endpoint is not None:
            address = LeaderAddress(known.leader, endpoint.host, endpoint.port, registered.rack)
    return LeaderHint(known.leader, known.leader_epoch, address)
