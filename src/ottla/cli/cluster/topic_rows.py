"""Topics and partitions as `ottla topic` writes them: the keys of its JSON, the columns of its tables."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ottla.cli.cluster.topic_words import shown_bytes
from ottla.cli.frame.table import Column
from ottla.cli.frame.terminal import Style
from ottla.client.admin.configs import ConfigEntry
from ottla.client.admin.log_sizes import LogSizes
from ottla.client.admin.partition_offsets import FoundOffset
from ottla.client.admin.topic_state import Moving, PartitionState, TopicState, Trouble, has_trouble
from ottla.client.admin.topic_state import topic_replication_factor as replication_factor
from ottla.client.cluster_requests import TopicPartition
from ottla.client.errors import ClusterError

Offsets = Mapping[TopicPartition, FoundOffset | ClusterError]

LISTED: Final = (
    Column("name"),
    Column("partitions", right=True),
    Column("replication_factor", "replicas", right=True),
    Column(
        "under_replicated",
        "under-replicated",
        right=True,
        style=lambda number: Style.YELLOW if number else "",
    ),
    Column("unavailable", right=True, style=lambda number: Style.RED if number else ""),
)
SIZE: Final = Column("size_bytes", "size", right=True, show=shown_bytes)
PARTITION: Final = (
    Column("partition", right=True),
    Column("leader", right=True, show=lambda leader: "none" if leader is None else str(leader)),
    Column("replicas"),
    Column("isr"),
    Column("offline", style=lambda brokers: Style.RED if brokers else ""),
)
ELIGIBLE: Final = (Column("elr"), Column("last_known_elr", "last known elr"))
OFFSETS: Final = (
    Column("start_offset", "start", right=True),
    Column("end_offset", "end", right=True),
)


def id_text(topic_id: uuid.UUID) -> str:
    """A topic's id as Kafka's tools write it."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def topic_row(topic: TopicState, live_brokers: Collection[int], moving: Moving) -> dict[str, Any]:
    """A topic in a list."""
    name = topic.name or ""
    under_replicated = unavailable = 0
    for one in topic.partitions:
        if len(one.isr_nodes) < len(one.replica_nodes):
            adding = moving.get((name, one.partition_index), ())
            under_replicated += has_trouble(
                one, Trouble.UNDER_REPLICATED, live_brokers=live_brokers, adding=adding
            )
        unavailable += one.leader_id not in live_brokers
    return {
        "name": name,
        "topic_id": id_text(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": replication_factor(topic),
        "under_replicated": under_replicated,
        "unavailable": unavailable,
    }


def partition_row(
    topic: str,
    partition: PartitionState,
    sizes: LogSizes | None,
    starts: Offsets | None,
    ends: Offsets | None,
) -> dict[str, Any]:
    """A partition in a description. sizes, starts, ends: None where they were not asked for."""
    key = TopicPartition(topic, partition.partition_index)
    leader = partition.leader_id if partition.leader_id >= 0 else None
    row: dict[str, Any] = {
        "partition": partition.partition_index,
        "leader": leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replica_nodes),
        "isr": list(partition.isr_nodes),
        "offline": list(partition.offline_replicas),
        "elr": getattr(partition, "eligible_leader_replicas", None),
        "last_known_elr": getattr(partition, "last_known_elr", None),
    }
    if sizes is not None:
        row["size_bytes"] = None if leader is None else sizes.of(key, leader)
    if starts is not None and ends is not None:
        row["start_offset"], row["end_offset"] = _offset(starts.get(key)), _offset(ends.get(key))
    return row


def _offset(found: FoundOffset | ClusterError | None) -> int | None:
    return found.offset if isinstance(found, FoundOffset) else None


def description(
    topic: TopicState,
    rows: Sequence[Mapping[str, Any]],
    configs: Sequence[ConfigEntry] | None,
    sizes: LogSizes | None,
) -> dict[str, Any]:
    """A described topic: its own facts, the settings that are not the default, its partitions."""
    found: dict[str, Any] = {
        "name": topic.name or "",
        "topic_id": id_text(topic.topic_id),
        "internal": topic.is_internal,
        "partition_count": len(rows),
        "replication_factor": replication_factor(topic),
    }
    if sizes is not None:
        found["size_bytes"] = _total(row["size_bytes"] for row in rows)
        keys = [TopicPartition(topic.name or "", row["partition"]) for row in rows]
        found["replicas_size_bytes"] = sum(sum(sizes.sizes.get(key, {}).values()) for key in keys)
    if configs is not None:
        found["configs"] = {one.name: one.value for one in configs if not one.is_default}
    found["partitions"] = list(rows)
    return found


def _total(values: Any) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def described_facts(found: Mapping[str, Any]) -> dict[str, Any]:
    """A description's facts for people, without its partitions."""
    facts: dict[str, Any] = {
        "topic": found["name"] + (" (internal)" if found["internal"] else ""),
        "id": found["topic_id"],
        "partitions": found["partition_count"],
        "replicas": found["replication_factor"],
    }
    if found.get("size_bytes") is not None:
        facts["size"] = shown_bytes(found["size_bytes"])
        if found["replication_factor"] > 1:
            facts["size"] += f", {shown_bytes(found['replicas_size_bytes'])} with all replicas"
    if "configs" in found:
        facts["configs"] = ", ".join(
            f"{name}={'(sensitive)' if value is None else value}" for name, value in found["configs"].items()
        )
    return facts
