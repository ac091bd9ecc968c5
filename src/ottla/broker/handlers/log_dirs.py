"""DescribeLogDirs (API key 35): versions 1 to 5, what lies where, how much room is left (KIP-827)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ottla.broker.context import RequestContext
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ottla.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Every partition asked for (null: all) with its size in bytes.

    offset_lag is how far the log's end is below the high watermark, so 0 but for moves between directories,
    which there are none of.
    """
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {topic.topic: set(topic.partitions) for topic in request.topics}
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in broker.replicas.partitions():
        if wanted is not None and partition.index not in wanted.get(partition.topic, ()):
            continue
        by_topic.setdefault(partition.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size_bytes,
                offset_lag=0,
                is_future_key=False,
            )
        )
    usage = shutil.disk_usage(broker.log_directory.path)
    return DescribeLogDirsResponse(
        error_code=0,
        results=[
            DescribeLogDirsResult(
                error_code=0,
                log_dir=str(broker.log_directory.path),
                topics=[
                    DescribeLogDirsTopic(name=name, partitions=partitions)
                    for name, partitions in by_topic.items()
                ],
                total_bytes=usage.total,
                usable_bytes=usage.free,
            )
        ],
    )


HANDLERS = {ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs}
