"""Which partitions of the coordinators' topics this broker goes by: Kafka's, or for now an older ottla's.

core/coordination/agreement.py decides. A broker's registration is in the metadata; a broker that registered
in a way that older ottlas and Apache Kafka share is asked which APIs it serves. The start asks before this
broker takes any role; later on, a broker that comes is asked. Once all agree, this broker stays with Kafka's
partitions for as long as it runs: names that were moved there are found nowhere else.

The file remembers which partitions are known to hold nothing of an older ottla, so that a load need not look
again; it counts for as long as no older ottla is seen. A kill before it is written costs another look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.parts import Background, Cluster
from ottla.broker.peers.broker_requests import AsksBrokers
from ottla.broker.peers.peers import PeerUnreachable
from ottla.core.coordination.agreement import BrokerKind, all_agree
from ottla.core.coordination.partitioning import older_partition_for, partition_for
from ottla.core.image.features import COORDINATOR_PARTITIONS
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.storage.checkpoints import read_offsets, write_offsets

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.core.image.image import BrokerImage, MetadataDelta

log = logging.getLogger("ottla.broker.coordinators")

PURPOSE: Final = "coordinator-partitions"
CHECKPOINT: Final = "ottla-clean-coordinator-partitions"
ASK_TIMEOUT_MS: Final = 5_000
RETRY_SECONDS: Final = 1.0
KAFKAS_API: Final = ApiKey.DESCRIBE_ACLS
"""Every broker of Apache Kafka serves it; no ottla did before it registered the feature."""


class PartitionsNode(Cluster, Background, Protocol):
    """The members of a node that the choice of coordinators' partitions uses."""

    @property
    def broker_requests(self) -> AsksBrokers:
        """The way to other brokers."""
        ...


class CoordinatorPartitions:
    """Knows the partition that each name lives in. Used on the event loop only."""

    def __init__(self, node: PartitionsNode, directory: Path, on_agreed: Callable[[], None]) -> None:
        """`directory` is that of the data."""
        self.agreed = True
        """Whether Kafka's partitions hold; see `settle`."""
        self._node = node
        self._on_agreed = on_agreed
        self._path = directory / CHECKPOINT
        self._kinds: dict[tuple[int, int], BrokerKind] = {}
        """The kinds that were learned of registrations: (broker id, broker epoch) -> kind."""
        self._asking: set[tuple[int, int]] = set()
        self._told: tuple[int, ...] = ()
        self._clean: dict[tuple[str, int], int] = {}
        """(topic, partition) -> the number of the topic's partitions when it was found clean."""
        self._writing = asyncio.Lock()

    def partition_for(self, name: str, partition_count: int) -> int:
        """The partition of `partition_count` in which the cluster looks for `name`."""
        return (partition_for if self.agreed else older_partition_for)(name, partition_count)

    def is_known_by(self, node_id: int) -> bool:
        """Whether a broker is an ottla that knows Kafka's partitions; brokers of Apache Kafka are none."""
        broker = self._node.image.brokers.get(node_id)
        return broker is not None and _knows(broker)

    # -- whether all agree --------------------------------------------------------------------------

    async def settle(self) -> None:
        """Decide, before this broker takes any role; asks the brokers that run and don't register it.

        Raises StorageError.
        """
        self._clean = await asyncio.to_thread(read_offsets, self._path)
        before = self._node.image.brokers.get(self._node.node_id)
        if before is not None and not _knows(before):
            self._forget_clean()  # this very broker was an older one in its last run
        await asyncio.gather(*(self._ask(each) for each in self._silent() if not each.fenced))
        self._decide()

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Brokers have come, gone, or registered anew."""
        if self.agreed or not delta.changed_brokers:
            return
        for each in self._silent():
            registration = each.broker_id, each.broker_epoch
            if not each.fenced and registration not in self._kinds and registration not in self._asking:
                self._asking.add(registration)
                self._node.supervisor.spawn(f"kind-of-broker-{each.broker_id}", self._learn(each))
        self._decide_and_tell()

    def _silent(self) -> Iterator[BrokerImage]:
        """The other brokers that did not register that they know Kafka's partitions."""
        for each in self._node.image.brokers.values():
            if each.broker_id != self._node.node_id and not _knows(each):
                yield each

    def _decide(self) -> None:
        kinds = {
            each.broker_id: self._kinds.get((each.broker_id, each.broker_epoch), BrokerKind.UNKNOWN)
            for each in self._silent()
        }
        self.agreed = all_agree(kinds.values())
        if self.agreed:
            return
        self._forget_clean()
        waited_for = tuple(sorted(node for node, kind in kinds.items() if kind is not BrokerKind.KAFKA))
        if waited_for != self._told:
            self._told = waited_for
            log.warning(
                "groups and transactions stay in the partitions of an older ottla until all brokers are of "
                "this version; upgrade the others, or unregister those that are gone brokers=%s",
                ",".join(map(str, waited_for)),
            )

    def _decide_and_tell(self) -> None:
        self._decide()
        if self.agreed:
            log.info("all brokers know Kafka's partitions of groups and transactions")
            self._on_agreed()

    async def _learn(self, asked: BrokerImage) -> None:
        """Ask a broker until it has answered, or until its registration is another one."""
        registration = asked.broker_id, asked.broker_epoch
        while not self.agreed:
            known = self._node.image.brokers.get(asked.broker_id)
            if known is None or known.broker_epoch != asked.broker_epoch or known.fenced:
                break
            await self._ask(asked)
            if registration in self._kinds:
                break
            await asyncio.sleep(RETRY_SECONDS)
        self._asking.discard(registration)
        if not self.agreed:
            self._decide_and_tell()

    async def _ask(self, asked: BrokerImage) -> None:
        try:
            answer = await self._node.broker_requests.ask(
                PURPOSE,
                asked.broker_id,
                ApiVersionsRequest(client_software_name="ottla", client_software_version="1"),
                timeout_ms=ASK_TIMEOUT_MS,
            )
        except PeerUnreachable as problem:
            log.info("broker not asked for its APIs broker=%d reason=%s", asked.broker_id, problem)
            return
        assert isinstance(answer, ApiVersionsResponse)
        served = {each.api_key for each in answer.api_keys}
        kind = BrokerKind.KAFKA if KAFKAS_API in served else BrokerKind.OLDER
        self._kinds[asked.broker_id, asked.broker_epoch] = kind

    # -- where nothing is left to move --------------------------------------------------------------

    def is_clean(self, topic: str, partition: int, partition_count: int) -> bool:
        """Whether the partition is known to hold nothing that an older ottla has left there."""
        return self._clean.get((topic, partition)) == partition_count

    async def note_clean(self, topic: str, partition: int, partition_count: int) -> None:
        """Remember that the partition is clean, over restarts. Raises OSError when the disk refuses."""
        async with self._writing:
            if self.agreed and not self.is_clean(topic, partition, partition_count):
                self._clean[topic, partition] = partition_count
                await asyncio.to_thread(write_offsets, self._path, dict(self._clean))

    def _forget_clean(self) -> None:
        """An older ottla may have written anywhere."""
        self._clean.clear()
        self._path.unlink(missing_ok=True)


def _knows(broker: BrokerImage) -> bool:
    return any(name == COORDINATOR_PARTITIONS for name, _, _ in broker.features)
