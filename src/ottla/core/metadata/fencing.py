"""What becomes of a broker's partitions when it is fenced, unfenced, stops or goes for good, as records.

Each is one list of records in Kafka's order: partitions lose a broker before it is fenced, and gain it after it
was unfenced.
"""

from __future__ import annotations

from ottla.core.metadata.image import MetadataImage
from ottla.core.metadata.partition_changes import TopicRules
from ottla.protocol.schema import Message


def fence_broker(image: MetadataImage, broker_id: int, rules: TopicRules) -> list[Message]:
    """It leads nothing and is in sync with nothing any more, and clients are not told of it."""
    raise AssertionError("not yet")


def unfence_broker(image: MetadataImage, broker_id: int, rules: TopicRules) -> list[Message]:
    """It may lead: partitions without a leader that it can serve get it."""
    raise AssertionError("not yet")


def begin_controlled_shutdown(image: MetadataImage, broker_id: int, rules: TopicRules) -> list[Message]:
    """Its partitions are led by others while it still serves."""
    raise AssertionError("not yet")


def remove_broker(image: MetadataImage, broker_id: int, rules: TopicRules) -> list[Message]:
    """It is registered no more, in sync and eligible nowhere. It stays a replica of what it was assigned."""
    raise AssertionError("not yet")


def restart_broker(image: MetadataImage, broker_id: int, clean: bool, rules: TopicRules) -> list[Message]:
    """A new incarnation begins: what the one before was in sync with. Unclean: it is eligible nowhere."""
    raise AssertionError("not yet")
