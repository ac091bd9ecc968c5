"""Several brokers, each a process, that are one cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.testing.broker import RunningBroker
from ottla.testing.errors import KafkaTestError
from ottla.testing.kafka import Kafka
from ottla.testing.server_process import stop_together
from ottla.testing.wire import Deadline, NotYet, insist

HEAL_SECONDS: Final = 60.0


class RunningCluster(Kafka):
    """Brokers 1, 2, 3 … that replicate each other's partitions; nodes 1 to 3 are the controllers, too."""

    def __init__(self, brokers: Sequence[RunningBroker]) -> None:
        super().__init__(",".join(broker.bootstrap for broker in brokers))
        self.brokers = tuple(brokers)
        """The brokers in the order of their ids."""

    def __len__(self) -> int:
        return len(self.brokers)

    def __iter__(self) -> Iterator[RunningBroker]:
        return iter(self.brokers)

    def broker(self, node_id: int) -> RunningBroker:
        """The broker with this `node.id`. Raises KeyError."""
        for broker in self.brokers:
            if broker.node_id == node_id:
                return broker
        raise KeyError(f"the cluster has brokers 1 to {len(self.brokers)}, not {node_id}")

    def leader(
        self, topic: str, partition: int = 0, *, timeout_seconds: float = HEAL_SECONDS
    ) -> RunningBroker:
        """The broker that leads a partition, waited for. Raises KafkaTestError."""
        deadline = Deadline(timeout_seconds)

        def found() -> RunningBroker:
            partitions = self._partitions(topic, deadline, f"find the leader of {topic}")
            if partition not in partitions:
                raise KafkaTestError(f"topic {topic} has no partition {partition}")
            host, port = partitions[partition].address
            for broker in self.brokers:
                if broker.bootstrap == f"{host}:{port}":
                    return broker
            raise NotYet(f"{host}:{port} leads it, which is none of the cluster's brokers")

        return insist(found, f"find the leader of {topic}", deadline)

    def in_sync(self, topic: str, partition: int = 0, *, timeout_seconds: float = HEAL_SECONDS) -> list[int]:
        """The ids of a partition's replicas that are in sync, in the order of the ids."""
        deadline = Deadline(timeout_seconds)
        (told,) = insist(lambda: self._wire.metadata([topic], deadline), f"describe {topic}", deadline).topics
        for each in told.partitions:
            if each.partition_index == partition:
                return sorted(each.isr_nodes)
        raise KafkaTestError(f"topic {topic} has no partition {partition}")

    def heal(self, *, timeout_seconds: float = HEAL_SECONDS) -> None:
        """Start and resume every broker, and wait until all are registered and all replicas in sync.

        Raises KafkaTestError, ServerError.
        """
        for broker in self.brokers:
            broker.resume()
        self.start()
        deadline = Deadline(timeout_seconds)
        insist(lambda: self._require_in_sync(deadline), "see all replicas in sync", deadline)

    def _require_in_sync(self, deadline: Deadline) -> None:
        for broker in self.brokers:
            self._require_in_sync_by(broker, deadline)

    def _require_in_sync_by(self, broker: RunningBroker, deadline: Deadline) -> None:
        answer = broker._wire.metadata(None, deadline)
        if len(answer.brokers) < len(self.brokers):
            known = len(answer.brokers)
            raise NotYet(f"broker {broker.node_id} knows {known} of {len(self.brokers)} brokers")
        for topic in answer.topics:
            for partition in topic.partitions:
                if len(partition.isr_nodes) < len(partition.replica_nodes) or partition.leader_id < 0:
                    name = f"{topic.name}-{partition.partition_index}"
                    raise NotYet(f"{name} has {partition.isr_nodes} in sync")

    def stop(self) -> None:
        """Stop all brokers that run, cleanly. Raises ServerError."""
        stopping = [broker for broker in self.brokers if broker.running]
        for broker in stopping:
            broker.refuse()
        stop_together([broker.server for broker in stopping])

    def start(self) -> None:
        """Start all brokers that do not run. Raises ServerError."""
        down = [broker for broker in self.brokers if not broker.running]
        for broker in down:
            broker.launch()
        for broker in down:
            broker.wait_until_ready()

    def close(self) -> None:
        """End all brokers for good. The data stay."""
        super().close()
        for broker in self.brokers:
            broker.close()
