"""`ottla partition`: which brokers have the replicas of partitions, and which of them lead.

reassign   move replicas, by a rule or by a plan in Kafka's JSON (AlterPartitionReassignments, KIP-455)
list       the moves that are under way (ListPartitionReassignments)
elect      preferred leaders, or any replica as the last resort (ElectLeaders)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from ottla.cli.cluster.any_broker import CommandError, cluster_client, require_success
from ottla.cli.cluster.reassignment_plan import Assignment, ImpossiblePlan, plan_reassignment, replace_broker
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import group
from ottla.cli.frame.completing import complete_topics
from ottla.cli.frame.options import COUNT, INT32, require_one
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


@group("partition", examples=["ottla partition reassign --from 4", "ottla partition elect preferred"])
def partition() -> None:
    """Move replicas between brokers, and elect leaders."""


# -- reassign ----------------------------------------------------------------------------------------------


class ReassignOptions(NamedTuple):
    """The values of the options of `reassign`, as its help explains them."""

    topic: str | None
    source: int | None
    file: Path | None
    cancel: bool
    brokers: str | None
    replication_factor: int | None
    dry_run: bool


@partition.command(
    "reassign",
    examples=[
        "ottla partition reassign --topic orders --brokers 1,2,3 --replication-factor 3 --dry-run",
        "ottla partition reassign --from 4",
        "ottla partition reassign --file plan.json",
    ],
)
@click.option(
    "--topic",
    metavar="NAME",
    shell_complete=complete_topics,
    help="Spread a topic's replicas over --brokers.",
)
@click.option("--from", "source", type=INT32, metavar="ID", help="Move all replicas off a broker.")
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="PLAN",
    help="A plan in the JSON of Kafka's own tool.",
)
@click.option("--cancel", is_flag=True, help="End all moves that are under way, as they were.")
@click.option("--brokers", metavar="ID,…", help="The brokers to use. [default: all that are there]")
@click.option("--replication-factor", type=COUNT, metavar="N", help="With --topic: replicas of each.")
@click.option("--dry-run", is_flag=True, help="Write the plan, move nothing.")
@asks_cluster
async def reassign(session: Session, /, **given: Any) -> None:
    """Move replicas to other brokers: by --topic, --from or --file; or --cancel the moves under way."""
    options = ReassignOptions(**given)
    require_one(
        {
            "--topic": options.topic,
            "--from": options.source,
            "--file": options.file,
            "--cancel": options.cancel,
        }
    )
    async with cluster_client(session.access) as client:
        planned = await _planned(client, options)
        plan = [
            {"topic": topic, "partition": index, "replicas": replicas}
            for (topic, index), replicas in sorted(planned.items())
        ]
        if not options.dry_run and plan:
            await _alter(client, planned)
    if session.output.is_json:
        session.output.json({"version": 1, "partitions": plan})
    else:
        _list_rows(session, plan, "nothing has to move")


async def _planned(
    client: ClusterRequests, options: ReassignOptions
) -> dict[tuple[str, int], list[int] | None]:
    """The replicas that partitions are to have; None ends a move."""
    if options.cancel:
        return {(row["topic"], row["partition"]): None for row in await _ongoing(client)}
    if options.file is not None:
        return dict(_read_plan(options.file))
    return dict(await _plan(client, options))


def _list_rows(session: Session, rows: list[dict[str, Any]], none: str) -> None:
    """Write a table of partitions, or with --quiet their names, `orders-3`."""
    output = session.output
    if output.is_quiet:
        for row in rows:
            output.line(f"{row['topic']}-{row['partition']}")
    elif rows:
        output.listing(rows)
    else:
        output.say(none)


async def _plan(client: ClusterRequests, options: ReassignOptions) -> Assignment:
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


@partition.command("list", examples=["ottla partition list", "ottla partition list --json"])
@asks_cluster
async def list_(session: Session) -> None:
    """List the moves that are under way."""
    async with cluster_client(session.access) as client:
        rows = await _ongoing(client)
    if session.output.is_json:
        session.output.json(rows)
    else:
        _list_rows(session, rows, "no replica is being moved")


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


@partition.command(
    "elect",
    examples=[
        "ottla partition elect preferred",
        "ottla partition elect unclean --topic orders --partition 3",
    ],
)
@click.argument("type", type=click.Choice(tuple(ELECTION_TYPES)))
@click.option("--topic", metavar="NAME", shell_complete=complete_topics, help="[default: all topics]")
@click.option("--partition", "partitions", type=INT32, multiple=True, metavar="N", help="May be repeated.")
@asks_cluster
async def elect(session: Session, type: str, topic: str | None, partitions: tuple[int, ...]) -> None:
    """Elect leaders: the preferred ones, or, as the last resort, any replica that is there (unclean)."""
    if topic is None and partitions:
        raise CommandError("--partition needs --topic")
    async with cluster_client(session.access) as client:
        asked = None if topic is None else [await _partitions(client, topic, partitions)]
        answer = await client.ask(
            ElectLeadersRequest(election_type=ELECTION_TYPES[type], topic_partitions=asked),
            ElectLeadersResponse,
        )
    require_success(answer.error_code, None)
    rows = [
        {
            "topic": result.topic,
            "partition": each.partition_id,
            "error": None if each.error_code == 0 else ErrorCode(each.error_code).name,
        }
        for result in answer.replica_election_results
        for each in result.partition_result
    ]
    if not session.output.is_json:
        _list_rows(session, rows, "every partition has the leader that it should have")
    failed = [row for row in rows if row["error"] not in (None, ErrorCode.ELECTION_NOT_NEEDED.name)]
    if failed:
        raise CommandError(f"{failed[0]['topic']}-{failed[0]['partition']}: {failed[0]['error']}")
    if session.output.is_json:
        session.output.json(rows)


async def _partitions(client: ClusterRequests, topic: str, partitions: tuple[int, ...]) -> TopicPartitions:
    if partitions:
        return TopicPartitions(topic=topic, partitions=list(partitions))
    answer = await client.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False),
        MetadataResponse,
    )
    (described,) = answer.topics
    require_success(described.error_code, None, topic)
    return TopicPartitions(topic=topic, partitions=[each.partition_index for each in described.partitions])
