"""`ottla quorum`: the metadata quorum's state, its voters, and nodes that are gone for good.

status      the leader, the voters and the observers, and how far each has come (DescribeQuorum)
add         turn a controller that follows the quorum into a voter (AddRaftVoter, KIP-853)
remove      take a voter out (RemoveRaftVoter)
unregister  forget a broker that has no replicas any more (UnregisterBroker), or a controller that is no
            voter any more (UnregisterController)
upgrade     finalize a newer metadata.version, once all nodes have the newer software (UpdateFeatures)
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.cluster.any_broker import CommandError, cluster_client, require_success
from ottla.cli.frame.cluster import Session, asks_cluster, asks_cluster_without_config
from ottla.cli.frame.commands import group
from ottla.cli.frame.options import INT32, require_one
from ottla.cli.servers.given_settings import given_in_file
from ottla.cli.servers.options import config_option
from ottla.client.cluster_requests import ClusterRequests
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter_request import Listener as VoterListener
from ottla.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.describe_quorum_response import DescribeQuorumResponse, ReplicaState
from ottla.protocol.messages.describe_quorum_response import PartitionData as Quorum
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from ottla.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from ottla.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.update_features_response import UpdateFeaturesResponse
from ottla.protocol.schema import ZERO_UUID
from ottla.storage.checkpoints import uuid_from_text, uuid_to_text
from ottla.storage.log_directory import (
    META_PROPERTIES,
    LogDirectoryError,
    MetaProperties,
    read_meta_properties,
)

ADD_TIMEOUT_MS: Final = 30_000
METADATA_VERSION: Final = "metadata.version"


@group("quorum", examples=["ottla quorum status"])
def quorum() -> None:
    """Show and change the controllers of a cluster: the metadata quorum, its voters and observers."""


# -- status ------------------------------------------------------------------------------------------------


async def _describe(client: ClusterRequests) -> tuple[Quorum, dict[int, str]]:
    """The quorum, and the controllers' addresses."""
    asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    answer = await client.ask(DescribeQuorumRequest(topics=[asked]), DescribeQuorumResponse)
    require_success(answer.error_code, answer.error_message)
    state = answer.topics[0].partitions[0]
    require_success(state.error_code, state.error_message)
    nodes = {
        node.node_id: ",".join(f"{each.host}:{each.port}" for each in node.listeners) for node in answer.nodes
    }
    return state, nodes


@quorum.command("status", examples=["ottla quorum status", "ottla quorum status --json | jq .leader"])
@asks_cluster
async def status(session: Session) -> None:
    """Show the leader, the voters and the observers, and how far each has come."""
    async with cluster_client(session.access) as client:
        state, nodes = await _describe(client)
    rows = [
        _row("leader" if replica.replica_id == state.leader_id else role, replica, state, nodes)
        for role, replicas in (("voter", state.current_voters), ("observer", state.observers))
        for replica in replicas
    ]
    output = session.output
    if output.is_json:
        output.json(
            {
                "leader": state.leader_id,
                "epoch": state.leader_epoch,
                "high_watermark": state.high_watermark,
                "nodes": rows,
            }
        )
        return
    output.say(f"leader {state.leader_id}, epoch {state.leader_epoch}, committed to {state.high_watermark}")
    output.listing(rows, name="node")


def _row(role: str, replica: ReplicaState, state: Quorum, nodes: dict[int, str]) -> dict[str, Any]:
    ends = [voter.log_end_offset for voter in state.current_voters if voter.replica_id == state.leader_id]
    known = replica.log_end_offset >= 0 and ends
    directory_id = replica.replica_directory_id
    return {
        "node": replica.replica_id,
        "role": role,
        "log_end_offset": replica.log_end_offset,
        "lag": max(0, ends[0] - replica.log_end_offset) if known else None,
        "directory_id": None if directory_id == ZERO_UUID else uuid_to_text(directory_id),
        "address": nodes.get(replica.replica_id),
    }


# -- add ---------------------------------------------------------------------------------------------------


@quorum.command("add", examples=["ottla quorum add --config server.properties --bootstrap controller-1:9093"])
@config_option("server.properties", "The controller's configuration; run this on its machine.", required=True)
@asks_cluster_without_config
async def add(session: Session, config: Path) -> None:
    """Turn a controller that follows the quorum into a voter."""
    # Only this command reads a node's own configuration; the others load nothing of the broker's.
    from ottla.broker.config import BROKER_TABLE, BrokerConfig

    node = BrokerConfig(given_in_file(config, BROKER_TABLE))
    if not node.is_controller or not node.advertised_controller_listeners:
        raise CommandError(f"{config}: this node has no controller that could vote")
    meta = _meta(node.log_directory)
    listeners = [
        VoterListener(name=each.name, host=each.host, port=each.port)
        for each in node.advertised_controller_listeners
    ]
    request = AddRaftVoterRequest(
        cluster_id=meta.cluster_id,
        timeout_ms=ADD_TIMEOUT_MS,
        voter_id=node.node_id,
        voter_directory_id=meta.directory_id or ZERO_UUID,
        listeners=listeners,
    )
    async with cluster_client(session.access) as client:
        answer = await client.ask(request, AddRaftVoterResponse)
    require_success(answer.error_code, answer.error_message, f"node {node.node_id}")
    session.output.done(f"node {node.node_id} is a voter", {"added": node.node_id}, name="added")


def _meta(directory: Path) -> MetaProperties:
    try:
        meta = read_meta_properties(directory)
    except LogDirectoryError as problem:
        raise CommandError(str(problem)) from None
    if meta is None:
        raise CommandError(f"{directory} has no {META_PROPERTIES}: start the node first")
    return meta


# -- remove ------------------------------------------------------------------------------------------------


@quorum.command("remove", examples=["ottla quorum remove --node 3"])
@click.option("--node", type=INT32, required=True, metavar="ID", help="The voter.")
@click.option(
    "--directory-id", metavar="UUID", help="The voter's directory.id. [default: as the quorum says]"
)
@asks_cluster
async def remove(session: Session, node: int, directory_id: str | None) -> None:
    """Take a voter out of the quorum."""
    async with cluster_client(session.access) as client:
        request = RemoveRaftVoterRequest(
            cluster_id=None, voter_id=node, voter_directory_id=await _directory_id(client, node, directory_id)
        )
        answer = await client.ask(request, RemoveRaftVoterResponse)
    require_success(answer.error_code, answer.error_message, f"node {node}")
    session.output.done(f"node {node} is no voter any more", {"removed": node}, name="removed")


async def _directory_id(client: ClusterRequests, node: int, given: str | None) -> uuid.UUID:
    if given is not None:
        try:
            return uuid_from_text(given)
        except ValueError:
            raise CommandError(f"--directory-id {given}: not an id as Kafka writes it") from None
    state, _ = await _describe(client)
    for voter in state.current_voters:
        if voter.replica_id == node:
            return voter.replica_directory_id
    voters = ", ".join(str(voter.replica_id) for voter in state.current_voters)
    raise CommandError(f"node {node} is no voter: these are {voters}")


# -- unregister --------------------------------------------------------------------------------------------


@quorum.command(
    "unregister", examples=["ottla quorum unregister --broker 4", "ottla quorum unregister --controller 5"]
)
@click.option("--broker", type=INT32, metavar="ID", help="A broker that has no replicas any more.")
@click.option("--controller", type=INT32, metavar="ID", help="A controller that is no voter any more.")
@asks_cluster
async def unregister(session: Session, broker: int | None, controller: int | None) -> None:
    """Forget a broker or a controller that is gone for good."""
    require_one({"--broker": broker, "--controller": controller})
    async with cluster_client(session.access) as client:
        if broker is not None:
            subject, node = f"broker {broker}", broker
            answer = await client.ask(UnregisterBrokerRequest(broker_id=broker), UnregisterBrokerResponse)
            error_code, message = answer.error_code, answer.error_message
        else:
            assert controller is not None
            subject, node = f"controller {controller}", controller
            forgotten = await client.ask(
                UnregisterControllerRequest(controller_id=controller), UnregisterControllerResponse
            )
            error_code, message = forgotten.error_code, forgotten.error_message
    require_success(error_code, message, subject)
    session.output.done(f"{subject} is forgotten", {"unregistered": node}, name="unregistered")


# -- upgrade -----------------------------------------------------------------------------------------------


@quorum.command(
    "upgrade",
    examples=[
        "ottla quorum upgrade --metadata-version 30 --validate-only",
        "ottla quorum upgrade --metadata-version 30",
    ],
)
@click.option(
    "--metadata-version",
    "level",
    type=click.IntRange(1, 2**15 - 1),
    required=True,
    metavar="LEVEL",
    help="The level, as `ottla doctor --only metadata-version` tells it.",
)
@click.option("--validate-only", is_flag=True, help="Only find out whether the cluster would do it.")
@asks_cluster
async def upgrade(session: Session, level: int, validate_only: bool) -> None:
    """Finalize a newer metadata.version, once every node runs the newer software: the end of an upgrade.

    Nodes of older software can't join any more afterwards. With --json one object: metadata_version,
    validate_only.
    """
    update = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=level)
    request = UpdateFeaturesRequest(feature_updates=[update], validate_only=validate_only)
    async with cluster_client(session.access) as client:
        answer = await client.ask_controller(request, UpdateFeaturesResponse)
    require_success(answer.error_code, answer.error_message, METADATA_VERSION)
    for result in answer.results:
        require_success(result.error_code, result.error_message, METADATA_VERSION)
    done = "would be" if validate_only else "is"
    session.output.done(
        f"{METADATA_VERSION} {done} {level}",
        {"metadata_version": level, "validate_only": validate_only},
        name="metadata_version",
    )
