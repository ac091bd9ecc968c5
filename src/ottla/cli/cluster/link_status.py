"""What a cluster's links say of themselves: the status topic, read to its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.cli.cluster.any_broker import CommandError
from ottla.client.admin.partition_offsets import EARLIEST, LATEST, list_offsets
from ottla.client.batch_fetching import fetch_batches
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError, NoSuchTopic
from ottla.core.links.definition import LINK_TOPIC
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_batch import decode_records, iterate_headers

FETCH_BYTES: Final = 4 << 20
ENDED: Final = ("promoted", "failed-over")


@dataclass(slots=True)
class LinksStatus:
    """Links by name, and topics by link and name."""

    links: dict[str, dict[str, Any]] = field(default_factory=dict)
    topics: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def topics_of(self, link: str) -> dict[str, dict[str, Any]]:
        """The mirror topics of a link, by name."""
        return {topic: value for (name, topic), value in sorted(self.topics.items()) if name == link}

    def take(self, key: Any, value: dict[str, Any] | None) -> None:
        """One record of the status topic."""
        if not isinstance(key, dict) or not isinstance(key.get("link"), str):
            return
        link, topic = key["link"], key.get("topic")
        table: dict[Any, dict[str, Any]] = self.links if topic is None else self.topics
        place = link if topic is None else (link, topic)
        if value is None:
            table.pop(place, None)
        else:
            table[place] = value


async def read_status(requests: ClusterRequests) -> LinksStatus:
    """The status of all links as of now. Raises ClusterError; a cluster without links has an empty one."""
    status = LinksStatus()
    partition = TopicPartition(LINK_TOPIC, 0)
    try:
        starts = await list_offsets(requests, {partition: EARLIEST})
        ends = await list_offsets(requests, {partition: LATEST})
    except NoSuchTopic:
        return status
    start, end = starts[partition], ends[partition]
    for found in (start, end):
        if isinstance(found, ClusterError):
            if found.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return status
            raise found
    assert not isinstance(start, ClusterError) and not isinstance(end, ClusterError)
    offset = start.offset
    while offset < end.offset:
        batches = (await fetch_batches(requests, {partition: offset}, FETCH_BYTES))[partition]
        if isinstance(batches, ClusterError):
            raise batches
        before = offset
        for position, header in iterate_headers(batches.records):
            if header.next_offset > offset:
                offset = header.next_offset
                if not header.is_control:
                    for record in decode_records(batches.records, position):
                        status.take(_json(record.key), _json(record.value))
        if offset == before:
            break
    return status


def _json(data: Any) -> Any:
    if data is None:
        return None
    try:
        return json.loads(bytes(data))
    except ValueError:
        return None


def require_link(status: LinksStatus, name: str) -> dict[str, Any]:
    """The status of a link. Raises CommandError where there is none."""
    found = status.links.get(name)
    if found is None:
        known = ", ".join(sorted(status.links)) or "none"
        raise CommandError(f"there is no link {name} (there are: {known})")
    return found


def partition_rows(topic: str, value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A topic's partitions as rows of a table."""
    return [{"topic": topic, **each, "told": _told(each)} for each in value.get("partitions", ())]


def _told(partition: Mapping[str, Any]) -> str:
    told = [f"{each['kind']} {each['from_offset']}-{each['to_offset']}" for each in partition.get("told", ())]
    reason = partition.get("reason")
    return "; ".join([reason, *told[:-1]] if reason else told)
