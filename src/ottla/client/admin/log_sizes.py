"""How many bytes the logs of partitions take on each broker (DescribeLogDirs)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.client.cluster_requests import ClusterRequests, TopicPartition, by_topic, refusal
from ottla.client.errors import ClusterError
from ottla.protocol.messages.describe_log_dirs_request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from ottla.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse


@dataclass(slots=True)
class LogSizes:
    """Partition -> broker -> bytes of its replica there. problems: brokers and directories left out."""

    sizes: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    problems: list[ClusterError] = field(default_factory=list)

    def of(self, partition: TopicPartition, broker: int) -> int | None:
        """The bytes of a partition's replica on a broker; None if they are not known."""
        return self.sizes.get(partition, {}).get(broker)


async def log_sizes(
    requests: ClusterRequests, partitions: Iterable[TopicPartition] | None = None
) -> LogSizes:
    """The sizes of these partitions, or of all, as far as brokers tell them. Raises ClusterError.

    Replicas that are being moved to another directory of their broker don't count.
    """
    topics = (
        None
        if partitions is None
        else [
            DescribableLogDirTopic(topic=name, partitions=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    )
    found = LogSizes()
    answers = await requests.ask_all(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse)
    for broker, answer in answers.items():
        if isinstance(answer, ClusterError):
            found.problems.append(answer)
        elif answer.error_code:
            found.problems.append(refusal(answer.error_code, None, f"broker {broker}"))
        else:
            _add(found, broker, answer)
    return found


def _add(found: LogSizes, broker: int, answer: DescribeLogDirsResponse) -> None:
    if not answer.results:  # so do brokers of Kafka below 3.4 answer a client that may not ask
        found.problems.append(ClusterError(f"broker {broker} tells of no log directory"))
    for directory in answer.results:
        if directory.error_code:
            subject = f"broker {broker}, {directory.log_dir}"
            found.problems.append(refusal(directory.error_code, None, subject))
            continue
        for topic in directory.topics:
            for one in topic.partitions:
                if not one.is_future_key:
                    sizes = found.sizes.setdefault(TopicPartition(topic.name, one.partition_index), {})
                    sizes[broker] = one.partition_size
