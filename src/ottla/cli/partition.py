"""`ottla partition`: which brokers have the replicas of partitions, and which of them lead.

reassign   move replicas, by a rule or by a plan in Kafka's JSON (AlterPartitionReassignments, KIP-455)
list       the moves that are under way (ListPartitionReassignments)
elect      preferred leaders, or any replica as the last resort (ElectLeaders)
"""

from __future__ import annotations

import argparse
import json
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
from ottla.cli.reassignment_plan import Assignment, ImpossiblePlan, plan_reassignment, replace_broker
from ottla.client.cluster_requests import ClusterRequests
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.elect_leaders_response import ElectLeadersResponse
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse

MAX_PLAN_BYTES: Final = 64 << 20
ELECTION_TYPES: Final = {"preferred": 0, "unclean": 1}


def main(argv: Sequence[str]) -> int:
    """Run one of the subcommands; its exit code."""
    options = _parser().parse_args(list(argv))
    return run_command(options, options.command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla partition", description="Replicas and leaders of partitions."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    reassign = commands.add_parser("reassign", help="move replicas to other brokers")
    choice = reassign.add_mutually_exclusive_group(required=True)
    choice.add_argument("--topic", metavar="NAME", help="spread a topic's replicas over --brokers")
    choice.add_argument(
        "--from", dest="source", type=int, metavar="ID", help="move all replicas off a broker"
    )
    choice.add_argument("--file", type=Path, metavar="PLAN", help="a plan in the JSON of Kafka's own tool")
    choice.add_argument(
        "--cancel", action="store_true", help="end all moves that are under way, as they were"
    )
    reassign.add_argument(
        "--brokers", metavar="ID,…", help="the brokers to use (default: all that are there)"
    )
    reassign.add_argument(
        "--replication-factor", type=int, metavar="N", help="with --topic: replicas of each"
    )
    reassign.add_argument("--dry-run", action="store_true", help="write the plan, move nothing")
    reassign.set_defaults(command=_reassign)
    moves = commands.add_parser("list", help="the moves that are under way")
    moves.set_defaults(command=_list)
    elect = commands.add_parser("elect", help="elect leaders")
    elect.add_argument("type", choices=tuple(ELECTION_TYPES))
    elect.add_argument("--topic", metavar="NAME", help="(default: all topics)")
    elect.add_argument("--partition", type=int, action="append", metavar="N", help="may be repeated")
    elect.set_defaults(command=_elect)
    for each in (reassign, moves, elect):
        add_common_options(each)
    return parser


# -- reassign ----------------------------------------------------------------------------------------------


async def _reassign(client: ClusterRequests, options: argparse.Namespace) -> Any:
    if options.cancel:
        ongoing = await _ongoing(client)
        planned: dict[tuple[str, int], list[int] | None] = {
            (row["topic"], row["partition"]): None for row in ongoing
        }
    elif options.file is not None:
        planned = dict(_read_plan(options.file))
    else:
        planned = dict(await _plan(client, options))
    plan = [
        {"topic": topic, "partition": index, "replicas": replicas}
        for (topic, index), replicas in sorted(planned.items())
    ]
    if not options.dry_run and plan:
        await _alter(client, planned)
    if not options.json:
        print_table(plan) if plan else print("nothing has to move")
    return {"version": 1, "partitions": plan}


async def _plan(client: ClusterRequests, options: argparse.Namespace) -> Assignment:
    """The partitions that change, and how."""
    topics = None if options.topic is None else [MetadataRequestTopic(name=options.topic)]
    answer = await client.ask(
        MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataResponse
    )
    for topic in answer.topics:
        require_success(topic.error_code, None, topic.name or "")
    racks = {broker.node_id: broker.rack for broker in answer.brokers}
    brokers = _ids(options.brokers) if options.brokers else sorted(racks)
    if unknown := sorted(set(brokers) - racks.keys()):
        raise CommandError(f"--brokers: there is no broker {unknown[0]}; there are {_shown(sorted(racks))}")
    current: Assignment = {
        (topic.name or "", partition.partition_index): list(partition.replica_nodes)
        for topic in answer.topics
        for partition in topic.partitions
    }
    try:
        if options.source is not None:
            others = [broker for broker in brokers if broker != options.source]
            return replace_broker(current, options.source, others, racks)
        planned = plan_reassignment(current, brokers, racks, options.replication_factor)
    except ImpossiblePlan as problem:
        raise CommandError(str(problem)) from None
    return {partition: replicas for partition, replicas in planned.items() if replicas != current[partition]}


def _ids(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise CommandError(f"--brokers {text}: write numbers with commas between")
    return list(dict.fromkeys(int(word) for word in words))


def _shown(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def _read_plan(path: Path) -> Assignment:
    try:
        if path.stat().st_size > MAX_PLAN_BYTES:
            raise CommandError(f"{path}: larger than {MAX_PLAN_BYTES} bytes, is this a plan?")
        content = json.loads(path.read_text(encoding="utf-8"))
        return {
            (str(each["topic"]), int(each["partition"])): [int(replica) for replica in each["replicas"]]
            for each in content["partitions"]
        }
    except OSError as problem:
        raise CommandError(f"{path}: can't read it: {problem.strerror}") from None
    except (ValueError, KeyError, TypeError) as problem:
        raise CommandError(f"{path}: not a plan in Kafka's JSON: {problem!r}") from None


async def _alter(client: ClusterRequests, planned: dict[tuple[str, int], list[int] | None]) -> None:
    topics: dict[str, ReassignableTopic] = {}
    for (name, index), replicas in planned.items():
        topic = topics.setdefault(name, ReassignableTopic(name=name, partitions=[]))
        topic.partitions.append(ReassignablePartition(partition_index=index, replicas=replicas))
    answer = await client.ask(
        AlterPartitionReassignmentsRequest(topics=list(topics.values())), AlterPartitionReassignmentsResponse
    )
    require_success(answer.error_code, answer.error_message)
    for response in answer.responses:
        for partition in response.partitions:
            require_success(
                partition.error_code, partition.error_message, f"{response.name}-{partition.partition_index}"
            )


# -- list ----------------------------------------------------------------------------------------------------


async def _list(client: ClusterRequests, options: argparse.Namespace) -> Any:
    rows = await _ongoing(client)
    if not options.json:
        print_table(rows) if rows else print("no replica is being moved")
    return rows


async def _ongoing(client: ClusterRequests) -> list[dict[str, Any]]:
    answer = await client.ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
    require_success(answer.error_code, answer.error_message)
    return [
        {
            "topic": topic.name,
            "partition": partition.partition_index,
            "replicas": partition.replicas,
            "adding": partition.adding_replicas,
            "removing": partition.removing_replicas,
        }
        for topic in answer.topics
        for partition in topic.partitions
    ]


# -- elect ---------------------------------------------------------------------------------------------------


async def _elect(client: ClusterRequests, options: argparse.Namespace) -> Any:
    asked = None if options.topic is None else [await _partitions(client, options)]
    if asked is None and options.partition:
        raise CommandError("--partition needs --topic")
    answer = await client.ask(
        ElectLeadersRequest(election_type=ELECTION_TYPES[options.type], topic_partitions=asked),
        ElectLeadersResponse,
    )
    require_success(answer.error_code, None)
    rows = [
        {
            "topic": result.topic,
            "partition": partition.partition_id,
            "error": None if partition.error_code == 0 else ErrorCode(partition.error_code).name,
        }
        for result in answer.replica_election_results
        for partition in result.partition_result
    ]
    if not options.json:
        print_table(rows) if rows else print("every partition has the leader that it should have")
    failed = [row for row in rows if row["error"] not in (None, ErrorCode.ELECTION_NOT_NEEDED.name)]
    if failed:
        raise CommandError(f"{failed[0]['topic']}-{failed[0]['partition']}: {failed[0]['error']}")
    return rows


async def _partitions(client: ClusterRequests, options: argparse.Namespace) -> TopicPartitions:
    if options.partition:
        return TopicPartitions(topic=options.topic, partitions=options.partition)
    answer = await client.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name=options.topic)], allow_auto_topic_creation=False),
        MetadataResponse,
    )
    (topic,) = answer.topics
    require_success(topic.error_code, None, options.topic)
    return TopicPartitions(
        topic=options.topic, partitions=[partition.partition_index for partition in topic.partitions]
    )
