"""AllocateProducerIds 0: blocks of producer ids, each given to one broker once (KIP-730)."""

from __future__ import annotations

from ottla.core.decisions.decision import Decision
from ottla.core.decisions.registration import registered_broker
from ottla.core.image.image import MetadataImage
from ottla.core.transactions.producer_ids import ProducerIdBlock
from ottla.protocol.errors import UnknownServerError
from ottla.protocol.records.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE = 1000
MAX_PRODUCER_ID = 2**63 - 1


def allocate_producer_ids(
    image: MetadataImage, broker_id: int, broker_epoch: int
) -> Decision[ProducerIdBlock]:
    """The next block. Raises StaleBrokerEpoch, or UnknownServerError if no ids are left."""
    registered_broker(image, broker_id, broker_epoch)
    first = image.next_producer_id
    if first > MAX_PRODUCER_ID - BLOCK_SIZE:
        raise UnknownServerError("all producer ids have been handed out")
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return Decision([record], ProducerIdBlock(first, BLOCK_SIZE))
