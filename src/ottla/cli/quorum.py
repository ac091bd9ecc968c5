"""`ottla quorum`: the metadata quorum's state, its voters, and nodes that are gone for good.

status      the leader, the voters and the observers, and how far each has come (DescribeQuorum)
add         turn a controller that follows the quorum into a voter (AddRaftVoter, KIP-853)
remove      take a voter out (RemoveRaftVoter)
unregister  forget a broker that has no replicas any more (UnregisterBroker), or a controller that is no
            voter any more (UnregisterController)
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ottla.cli.cluster_command import (
    CommandError,
    add_common_options,
    print_table,
    require_success,
    run_command,
)
from ottla.cli.options import add_config, given_in_file
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
from ottla.protocol.schema import ZERO_UUID
from ottla.storage.checkpoints import uuid_from_text, uuid_to_text
from ottla.storage.log_directory import (
    META_PROPERTIES,
    LogDirectoryError,
    MetaProperties,
    read_meta_properties,
)

ADD_TIMEOUT_MS: Final = 30_000


def main(argv: Sequence[str]) -> int:
    """Run one of the subcommands; its exit code."""
    options = _parser().parse_args(list(argv))
    return run_command(options, options.command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ottla quorum", description="The metadata quorum of a cluster.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    status = commands.add_parser("status", help="the leader, the voters and the observers")
    status.set_defaults(command=_status)
    add = commands.add_parser("add", help="turn a controller that follows the quorum into a voter")
    add_config(
        add, "server.properties", "the controller's configuration; run this on its machine", required=True
    )
    add.set_defaults(command=_add)
    remove = commands.add_parser("remove", help="take a voter out of the quorum")
    remove.add_argument("--node", type=int, required=True, metavar="ID")
    remove.add_argument(
        "--directory-id", metavar="UUID", help="the voter's directory.id (default: as the quorum says)"
    )
    remove.set_defaults(command=_remove)
    unregister = commands.add_parser(
        "unregister", help="forget a broker or a controller that is gone for good"
    )
    gone = unregister.add_mutually_exclusive_group(required=True)
    gone.add_argument("--broker", type=int, metavar="ID", help="a broker that has no replicas any more")
    gone.add_argument("--controller", type=int, metavar="ID", help="a controller that is no voter any more")
    unregister.set_defaults(command=_unregister)
    for each in (status, add, remove, unregister):
        add_common_options(each)
    return parser


async def _describe(client: ClusterRequests) -> tuple[Quorum, dict[int, str]]:
    """The quorum, and the controllers' addresses."""
    asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    answer = await client.ask(DescribeQuorumRequest(topics=[asked]), DescribeQuorumResponse)
    require_success(answer.error_code, answer.error_message)
    quorum = answer.topics[0].partitions[0]
    require_success(quorum.error_code, quorum.error_message)
    nodes = {
        node.node_id: ",".join(f"{each.host}:{each.port}" for each in node.listeners) for node in answer.nodes
    }
    return quorum, nodes


async def _status(client: ClusterRequests, options: argparse.Namespace) -> Any:
    quorum, nodes = await _describe(client)
    rows = [
        _row("leader" if replica.replica_id == quorum.leader_id else role, replica, quorum, nodes)
        for role, replicas in (("voter", quorum.current_voters), ("observer", quorum.observers))
        for replica in replicas
    ]
    result = {
        "leader": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "nodes": rows,
    }
    if not options.json:
        print(f"leader {quorum.leader_id}, epoch {quorum.leader_epoch}, committed to {quorum.high_watermark}")
        print_table(rows)
    return result


def _row(role: str, replica: ReplicaState, quorum: Quorum, nodes: dict[int, str]) -> dict[str, Any]:
    ends = [voter.log_end_offset for voter in quorum.current_voters if voter.replica_id == quorum.leader_id]
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


async def _add(client: ClusterRequests, options: argparse.Namespace) -> Any:
    # Only this command reads a node's own configuration; the others load nothing of the broker's.
    from ottla.broker.config import BROKER_TABLE, BrokerConfig

    config = BrokerConfig(given_in_file(options, BROKER_TABLE))
    if not config.is_controller or not config.advertised_controller_listeners:
        raise CommandError(f"{options.config}: this node has no controller that could vote")
    meta = _meta(config.log_directory)
    listeners = [
        VoterListener(name=each.name, host=each.host, port=each.port)
        for each in config.advertised_controller_listeners
    ]
    request = AddRaftVoterRequest(
        cluster_id=meta.cluster_id,
        timeout_ms=ADD_TIMEOUT_MS,
        voter_id=config.node_id,
        voter_directory_id=meta.directory_id or ZERO_UUID,
        listeners=listeners,
    )
    answer = await client.ask(request, AddRaftVoterResponse)
    require_success(answer.error_code, answer.error_message, f"node {config.node_id}")
    return _done(options, {"added": config.node_id}, f"node {config.node_id} is a voter")


def _meta(directory: Path) -> MetaProperties:
    try:
        meta = read_meta_properties(directory)
    except LogDirectoryError as problem:
        raise CommandError(str(problem)) from None
    if meta is None:
        raise CommandError(f"{directory} has no {META_PROPERTIES}: start the node first")
    return meta


async def _remove(client: ClusterRequests, options: argparse.Namespace) -> Any:
    directory_id = await _directory_id(client, options)
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=options.node, voter_directory_id=directory_id)
    answer = await client.ask(request, RemoveRaftVoterResponse)
    require_success(answer.error_code, answer.error_message, f"node {options.node}")
    return _done(options, {"removed": options.node}, f"node {options.node} is no voter any more")


async def _directory_id(client: ClusterRequests, options: argparse.Namespace) -> uuid.UUID:
    if options.directory_id is not None:
        try:
            return uuid_from_text(options.directory_id)
        except ValueError:
            raise CommandError(
                f"--directory-id {options.directory_id}: not an id as Kafka writes it"
            ) from None
    quorum, _ = await _describe(client)
    for voter in quorum.current_voters:
        if voter.replica_id == options.node:
            return voter.replica_directory_id
    voters = ", ".join(str(voter.replica_id) for voter in quorum.current_voters)
    raise CommandError(f"node {options.node} is no voter: these are {voters}")


async def _unregister(client: ClusterRequests, options: argparse.Namespace) -> Any:
    if options.controller is not None:
        forget = UnregisterControllerRequest(controller_id=options.controller)
        forgotten = await client.ask(forget, UnregisterControllerResponse)
        require_success(forgotten.error_code, forgotten.error_message, f"controller {options.controller}")
        line = f"controller {options.controller} is forgotten"
        return _done(options, {"unregistered": options.controller}, line)
    request = UnregisterBrokerRequest(broker_id=options.broker)
    answer = await client.ask(request, UnregisterBrokerResponse)
    require_success(answer.error_code, answer.error_message, f"broker {options.broker}")
    return _done(options, {"unregistered": options.broker}, f"broker {options.broker} is forgotten")


def _done(options: argparse.Namespace, result: dict[str, Any], line: str) -> dict[str, Any]:
    if not options.json:
        print(line)
    return result
