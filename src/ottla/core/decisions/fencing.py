"""What becomes of a broker's partitions when it is fenced, unfenced, stops, restarts or goes for good.

Each function adds its records to a decision's changes, in Kafka's order: partitions lose a broker before it
is fenced, and gain it after it was unfenced. So whoever has read only the first of the records sees no
leader that is fenced.
"""

from __future__ import annotations

from ottla.core.decisions.partition_changes import PartitionChanges, Target
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.records.unregister_broker_record import UnregisterBrokerRecord

FENCE = 1
UNFENCE = -1
IN_CONTROLLED_SHUTDOWN = 1


def fence_broker(changes: PartitionChanges, broker_id: int) -> None:
    """It leads nothing and is in sync with nothing any more, and clients are not told of it."""
    _take_out_of_sync(changes, broker_id)
    changes.records.append(
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=changes.image.brokers[broker_id].broker_epoch, fenced=FENCE
        )
    )


def unfence_broker(changes: PartitionChanges, broker_id: int) -> None:
    """It may lead: partitions without a leader that it can serve get it."""
    changes.records.append(
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=changes.image.brokers[broker_id].broker_epoch, fenced=UNFENCE
        )
    )
    changes.unfenced = broker_id
    for topic, partition in changes.image.leaderless_partitions():
        changes.change(topic, partition.partition_id, Target())


def begin_controlled_shutdown(changes: PartitionChanges, broker_id: int) -> None:
    """Its partitions are led by others while it still serves."""
    broker = changes.image.brokers[broker_id]
    if not broker.in_controlled_shutdown:
        changes.records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker_id,
                broker_epoch=broker.broker_epoch,
                in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN,
            )
        )
    _take_out_of_sync(changes, broker_id)


def remove_broker(changes: PartitionChanges, broker_id: int) -> None:
    """It is registered no more, in sync and eligible nowhere. It stays a replica of what it was assigned."""
    _take_out_of_sync_and_elr(changes, broker_id)
    changes.records.append(
        UnregisterBrokerRecord(
            broker_id=broker_id, broker_epoch=changes.image.brokers[broker_id].broker_epoch
        )
    )


def restart_broker(changes: PartitionChanges, broker_id: int, clean: bool) -> None:
    """A new incarnation begins. What the one before was in sync with must be caught up with again.

    After an unclean shutdown it may lack records that it had acknowledged: it is not eligible any more.
    """
    if clean:
        _take_out_of_sync(changes, broker_id)
    else:
        _take_out_of_sync_and_elr(changes, broker_id)


def _take_out_of_sync(changes: PartitionChanges, broker_id: int) -> None:
    for topic, partition in changes.image.partitions_of_broker(broker_id):
        if broker_id in partition.isr:
            isr = tuple(each for each in partition.isr if each != broker_id)
            changes.change(topic, partition.partition_id, Target(isr=isr, barred=broker_id))


def _take_out_of_sync_and_elr(changes: PartitionChanges, broker_id: int) -> None:
    for topic, partition in changes.image.partitions_of_broker(broker_id):
        if broker_id in partition.isr or broker_id in partition.elr:
            isr = tuple(each for each in partition.isr if each != broker_id)
            target = Target(isr=isr, barred=broker_id, barred_has_lost_records=True)
            changes.change(topic, partition.partition_id, target)
