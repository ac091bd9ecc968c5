"""The controller's part in links: the records of the very batch that changes a mirror topic's settings.

    epochs     a partition whose source has a newer leader epoch gets at least that one, as a repeated
               PartitionRecord (a PartitionChangeRecord can raise an epoch by one only). Otherwise its own
               followers would refuse batches of an epoch above their leader's
    stopped    every partition gets a new epoch, above its own and above the source's
    the end    the settings go, and with them comes a ProducerIdsRecord above every mirrored producer id: an
               id that the source gave out must not be given out here, or a new producer's first batches
               could be taken for duplicates of an old one's

A mirror's settings come with the topic; a topic that was not made as a mirror does not become one, because
its records are its own. AlterConfigs, which replaces all settings of a topic, leaves a mirror's alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.core.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.core.links.topic_state import MalformedState, MirrorState, mirror_state, normalized
from ottla.core.settings.link_settings import LINK_EPOCHS, LINK_NAME, LINK_PREFIX
from ottla.protocol.errors import InvalidConfig, InvalidRequest
from ottla.protocol.records.partition_record import PartitionRecord
from ottla.protocol.records.producer_ids_record import ProducerIdsRecord
from ottla.protocol.schema import Message

NO_BROKER = -1
BLOCK_SIZE = 1_000
MAX_PRODUCER_ID = 2**63 - 1


def concerns_links(names: Iterable[str]) -> bool:
    """Whether some of the settings are those of mirror topics."""
    return any(name.startswith(LINK_PREFIX) for name in names)


def link_values(values: Mapping[str, str]) -> dict[str, str]:
    """The settings of a mirror topic among a topic's."""
    return {name: value for name, value in values.items() if name.startswith(LINK_PREFIX)}


def mirror_change(
    image: MetadataImage, topic_name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[dict[str, str], list[Message]]:
    """What a change of a topic's settings comes to: its settings then, and the records beside them.

    Raises InvalidRequest or InvalidConfig for a change that no link would make.
    """
    topic = image.topics[topic_name]
    try:
        old, new = mirror_state(before), mirror_state(after)
        if new is not None:
            after = normalized(after)
            new = mirror_state(after)
    except MalformedState as problem:
        raise InvalidConfig(str(problem)) from None
    if old is None:
        if new is not None or link_values(after):
            raise InvalidRequest(f"topic {topic_name} was not made as a mirror, so it can't become one")
        return dict(after), []
    if new is None:
        return _without_mirror(after), _ended(image, topic, old)
    if new.link != old.link or new.source_id != old.source_id:
        raise InvalidRequest(f"topic {topic_name} is a mirror of link {old.link} and stays one")
    if old.is_stopped and not new.is_stopped:
        raise InvalidRequest(f"topic {topic_name} has left its source already, it can't be copied again")
    raised = _raised(topic, new, stops=new.is_stopped and not old.is_stopped)
    after = dict(after)
    if new.is_stopped and not old.is_stopped:
        # Kept: what a log has below these epochs came from the source, the rest was written here.
        after[LINK_EPOCHS.name] = ",".join(f"{index}:{epoch}" for index, epoch in sorted(raised.items()))
    return after, [_with_epoch(topic, topic.partitions[index], epoch) for index, epoch in raised.items()]


def _without_mirror(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if not name.startswith(LINK_PREFIX)}


def _ended(image: MetadataImage, topic: TopicImage, old: MirrorState) -> list[Message]:
    """The records beside the end of a mirror. Raises InvalidRequest while partitions are not ready."""
    ends = old.ends or {}
    missing = [index for index in topic.partitions if index not in ends]
    if not old.is_stopped or missing:
        raise InvalidRequest(
            f"{LINK_NAME.name} of topic {topic.name} can't be taken away: promote it or fail it over first"
        )
    largest = max((each.max_producer_id for each in ends.values()), default=-1)
    wanted = largest + 1
    if wanted <= image.next_producer_id:
        return []
    rounded = min(-(-wanted // BLOCK_SIZE) * BLOCK_SIZE, MAX_PRODUCER_ID)
    return [ProducerIdsRecord(broker_id=NO_BROKER, broker_epoch=NO_BROKER, next_producer_id=rounded)]


def _raised(topic: TopicImage, state: MirrorState, *, stops: bool) -> dict[int, int]:
    """The higher leader epochs of partitions; all of them get one when the topic leaves its source."""
    raised: dict[int, int] = {}
    epochs = state.epochs or {}
    for index, partition in topic.partitions.items():
        of_source = epochs.get(index, -1)
        if stops:
            raised[index] = max(partition.leader_epoch, of_source) + 1
        elif of_source > partition.leader_epoch:
            raised[index] = of_source
    return raised


def _with_epoch(topic: TopicImage, partition: PartitionImage, leader_epoch: int) -> Message:
    return PartitionRecord(
        partition_id=partition.partition_id,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=leader_epoch,
        partition_epoch=partition.partition_epoch + 1,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )
