"""A broker that coordinates every group, and answers with the errors that the test lists.

Its answers to requests about groups come from a list of moods, one for each request, the last one for all
that follow. A mood is an error code, or None: then it hangs up instead of answering.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ottla.protocol.apis import ApiKey, request_class
from ottla.protocol.headers import decode_request_header, encode_response
from ottla.protocol.messages import (
    api_versions_response,
    consumer_group_describe_response,
    delete_groups_response,
    describe_groups_response,
    find_coordinator_response,
    list_groups_response,
    metadata_response,
    offset_commit_response,
    offset_fetch_response,
)
from ottla.protocol.schema import Message

Mood = int | None
TOPIC, GROUP = "orders", "copy-sink-in-0"
UNKNOWN_TOPIC = 3
VERSIONS = {
    ApiKey.API_VERSIONS: (0, 3),
    ApiKey.METADATA: (0, 8),
    ApiKey.FIND_COORDINATOR: (0, 2),
    ApiKey.LIST_GROUPS: (0, 4),
    ApiKey.OFFSET_FETCH: (1, 7),
    ApiKey.OFFSET_COMMIT: (2, 7),
    ApiKey.DESCRIBE_GROUPS: (0, 4),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 0),
    ApiKey.DELETE_GROUPS: (0, 1),
}
GROUP_REQUESTS = frozenset(VERSIONS) - {
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
}


class MoodyCoordinator:
    """asked: the keys of the requests about groups, in their order. metadata: beside the offset it has."""

    def __init__(self, moods: Sequence[Mood], metadata: str = "") -> None:
        self.metadata = metadata
        self.asked: list[ApiKey] = []
        self.port = 0
        self._moods = list(moods)
        self._lock = threading.Lock()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer(self, key: ApiKey, version: int, request: Any) -> Message | None:
        """The answer to a request; None to hang up."""
        match key:
            case ApiKey.API_VERSIONS:
                return api_versions_response.ApiVersionsResponse(
                    api_keys=[
                        api_versions_response.ApiVersion(api_key=each, min_version=low, max_version=high)
                        for each, (low, high) in VERSIONS.items()
                    ]
                )
            case ApiKey.METADATA:
                return self._metadata(request)
            case ApiKey.FIND_COORDINATOR:
                return find_coordinator_response.FindCoordinatorResponse(
                    node_id=1, host="127.0.0.1", port=self.port
                )
        with self._lock:
            self.asked.append(key)
            mood = self._moods.pop(0) if len(self._moods) > 1 else self._moods[0]
        if key is ApiKey.OFFSET_FETCH and mood is not None:
            return _offsets(mood, self.metadata)
        return None if mood is None else _ANSWERS[key](request, mood)

    def _metadata(self, request: Any) -> Message:
        names = [TOPIC] if request.topics is None else [topic.name for topic in request.topics]
        partition = metadata_response.MetadataResponsePartition(
            partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1]
        )
        return metadata_response.MetadataResponse(
            brokers=[metadata_response.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)],
            cluster_id="moody",
            controller_id=1,
            topics=[
                metadata_response.MetadataResponseTopic(name=name, partitions=[partition])
                if name == TOPIC
                else metadata_response.MetadataResponseTopic(name=name, error_code=UNKNOWN_TOPIC)
                for name in names
            ],
        )


@contextmanager
def moody_coordinator(moods: Sequence[Mood], metadata: str = "") -> Iterator[MoodyCoordinator]:
    """One that listens while the block runs."""
    coordinator = MoodyCoordinator(moods, metadata)

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(ConnectionError), self.request.makefile("rb") as frames:
                while size := int.from_bytes(frames.read(4), "big"):
                    frame = frames.read(size)
                    header, position = decode_request_header(frame)
                    key, version = ApiKey(header.api_key), header.api_version
                    request = request_class(key).decode(frame, version, position)
                    answer = coordinator.answer(key, version, request)
                    if answer is None:
                        self.request.shutdown(socket.SHUT_RDWR)
                        return
                    encoded = encode_response(key, version, header.correlation_id, answer)
                    self.request.sendall(len(encoded).to_bytes(4, "big") + encoded)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Connection) as server:
        coordinator.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield coordinator
        finally:
            server.shutdown()
            thread.join()


def _offsets(code: int, metadata: str) -> Message:
    partition = offset_fetch_response.OffsetFetchResponsePartition(
        partition_index=0, committed_offset=7, metadata=metadata, error_code=0
    )
    topic = offset_fetch_response.OffsetFetchResponseTopic(name=TOPIC, partitions=[partition])
    return offset_fetch_response.OffsetFetchResponse(topics=[] if code else [topic], error_code=code)


def _committed(request: Any, code: int) -> Message:
    return offset_commit_response.OffsetCommitResponse(
        topics=[
            offset_commit_response.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    offset_commit_response.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _deleted(request: Any, code: int) -> Message:
    return delete_groups_response.DeleteGroupsResponse(
        results=[
            delete_groups_response.DeletableGroupResult(group_id=group, error_code=code)
            for group in request.groups_names
        ]
    )


def _described(request: Any, code: int) -> Message:
    return describe_groups_response.DescribeGroupsResponse(
        groups=[
            describe_groups_response.DescribedGroup(
                group_id=group, error_code=code, group_state="" if code else "Empty"
            )
            for group in request.groups
        ]
    )


def _consumer_described(request: Any, code: int) -> Message:
    return consumer_group_describe_response.ConsumerGroupDescribeResponse(
        groups=[
            consumer_group_describe_response.DescribedGroup(group_id=group, error_code=code)
            for group in request.group_ids
        ]
    )


def _listed(request: Any, code: int) -> Message:
    group = list_groups_response.ListedGroup(group_id=GROUP, protocol_type="")
    return list_groups_response.ListGroupsResponse(error_code=code, groups=[] if code else [group])


_ANSWERS: dict[ApiKey, Callable[[Any, int], Message]] = {
    ApiKey.LIST_GROUPS: _listed,
    ApiKey.OFFSET_COMMIT: _committed,
    ApiKey.DESCRIBE_GROUPS: _described,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_described,
    ApiKey.DELETE_GROUPS: _deleted,
}
