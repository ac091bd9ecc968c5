"""Changes of a broker's partitions when it is fenced, unfenced, stopped, restarted or unregistered.

Each function adds its records to a decision's changes, in Kafka's order: partitions lose a broker before it
is fenced, and gain it after it was unfenced. So a node that has read only the first of the records sees no
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
    """Take the broker out of leadership and the in-sync sets, and hide it from clients."""
    _take_out_of_sync(changes, broker_id)
    changes.records.append(
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=changes.image.brokers[broker_id].broker_epoch, fenced=FENCE
        )
    )


def unfence_broker(changes: PartitionChanges, broker_id: int) -> None:
    """Unfence the broker, and let it lead partitions without a leader that it can serve."""
    changes.records.append(
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=changes.image.brokers[broker_id].broker_epoch, fenced=UNFENCE
        )
    )
    changes.unfenced = broker_id
    for topic, partition in changes.image.leaderless_partitions():
        changes.change(topic, partition.partition_id, Target())


def begin_controlled_shutdown(changes: PartitionChanges, broker_id: int) -> None:
    """Move leadership to other brokers while this one still serves."""
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
    """Unregister the broker, in sync and eligible nowhere; it stays in the partitions' replica lists."""
    _take_out_of_sync_and_elr(changes, broker_id)
    changes.records.append(
        UnregisterBrokerRecord(
            broker_id=broker_id, broker_epoch=changes.image.brokers[broker_id].broker_epoch
        )
    )


def restart_broker(changes: PartitionChanges, broker_id: int, clean: bool) -> None:
    """Begin a new incarnation of the broker, which has to catch up before it is in sync again.

    After an unclean shutdown it may lack records that it acknowledged, so it is no longer eligible.
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
