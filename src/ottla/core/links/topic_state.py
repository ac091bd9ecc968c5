"""A mirror topic's state, as the settings `ottla.link.*` of the topic say it.

Theory of operation. The metadata log is the one place that all brokers and controllers agree on, and it may
have no new types of records: Apache Kafka does not start on a log with one that it does not know. So the
state is settings of the topic. A mirror topic goes one way:

    mirroring   its leaders fetch from the source; nobody else may write
    promote     the same; once nothing is left to copy, the link's coordinator stops it
    fail-over   the same; stopped at once
    stopped, cut-off
                (by a promotion, by a fail-over)
                nothing is fetched any more. In the same metadata batch all partitions got a new leader epoch,
                above every one of the source, so leaders that have not heard of it are fenced by their
                followers. Each leader notes its epoch, ends the transactions that are open, waits for the
                commit, and adds its report to `ends`
    (none)      all reports are there: the settings go away, the ids of producers move above all that were
                mirrored (one metadata batch), and the topic is as any other

Reports and losses are lists with one item a partition or loss, so that leaders on several brokers can add
theirs at the same time.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.core.image.image import TOPIC_RESOURCE, MetadataImage
from ottla.core.settings.link_settings import (
    CUT_OFF,
    LINK_ENDS,
    LINK_EPOCHS,
    LINK_NAME,
    LINK_SOURCE_ID,
    LINK_STATE,
    LINK_TOLD,
    MIRRORING,
    STOPPED,
)

MAX_TOLD: Final = 64
"""Losses that a topic's settings keep; the oldest go first, but the last of each partition stays."""
MAX_NAMED_TRANSACTIONS: Final = 20
"""Aborted transactions that a report names; their number is always told."""


_STOPPED: Final = (STOPPED, CUT_OFF)


class MalformedState(ValueError):
    """A setting of a mirror topic that no link has written."""


class LossKind(enum.Enum):
    """What can have happened to a source."""

    TRUNCATED = "truncated"
    """An unclean election cut the source's log: the mirror was cut likewise, from `from` back to `to`."""
    GAP = "gap"
    """The source deleted records, from `from` up to `to`, before they were copied."""
    LOST = "lost"
    """The source's log ends at `to`, before the mirror's end `from`, and has no epochs to compare."""
    RECREATED = "recreated"
    """The source's topic was deleted, and another one made with its name."""
    DELETED = "deleted"
    """The source's topic was deleted."""

    @property
    def ends_mirroring(self) -> bool:
        """Whether the partition is copied no further: what follows would not continue what is here."""
        return self in (LossKind.LOST, LossKind.RECREATED, LossKind.DELETED)


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that the source lost, with the offsets that it concerns."""

    partition: int
    kind: LossKind
    from_offset: int
    to_offset: int
    at_ms: int

    def encode(self) -> str:
        """The item of `ottla.link.told`."""
        return f"{self.partition}:{self.kind.value}:{self.from_offset}:{self.to_offset}:{self.at_ms}"

    @staticmethod
    def decode(text: str) -> Loss:
        """Raises MalformedState."""
        try:
            partition, kind, start, end, at_ms = text.split(":")
            return Loss(int(partition), LossKind(kind), int(start), int(end), int(at_ms))
        except ValueError:
            raise MalformedState(f"{LINK_TOLD.name} has {text!r}") from None

    def is_same_as(self, other: Loss) -> bool:
        """Whether both tell of the same loss, at whatever time."""
        return (self.partition, self.kind, self.from_offset, self.to_offset) == (
            other.partition, other.kind, other.from_offset, other.to_offset,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """A transaction that was open when the mirroring ended."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """The report of a partition that is ready to be written to.

    mirrored_end_offset: the end of what came from the source. end_offset: with the markers of aborted
    transactions. max_producer_id: of the source's producers that the log knows, -1 without any.
    """

    partition: int
    mirrored_end_offset: int
    end_offset: int
    leader_epoch: int
    max_producer_id: int
    aborted_count: int = 0
    aborted: tuple[AbortedTransaction, ...] = ()

    def encode(self) -> str:
        """The item of `ottla.link.ends`."""
        named = "+".join(
            f"{each.producer_id}/{each.first_offset}" for each in self.aborted[:MAX_NAMED_TRANSACTIONS]
        )
        return (
            f"{self.partition}:{self.mirrored_end_offset}:{self.end_offset}:{self.leader_epoch}:"
            f"{self.max_producer_id}:{self.aborted_count}:{named}"
        )

    @staticmethod
    def decode(text: str) -> PartitionEnd:
        """Raises MalformedState."""
        try:
            *numbers, named = text.split(":")
            partition, mirrored, end, epoch, producer_id, count = (int(each) for each in numbers)
            aborted = [
                AbortedTransaction(*(int(part) for part in each.split("/")))
                for each in (named.split("+") if named else ())
            ]
        except (ValueError, TypeError):
            raise MalformedState(f"{LINK_ENDS.name} has {text!r}") from None
        return PartitionEnd(partition, mirrored, end, epoch, producer_id, count, tuple(aborted))


@dataclass(frozen=True, slots=True)
class MirrorState:
    """The state of one mirror topic."""

    link: str
    source_id: str
    state: str = MIRRORING
    epochs: Mapping[int, int] | None = None
    ends: Mapping[int, PartitionEnd] | None = None
    told: tuple[Loss, ...] = ()

    @property
    def is_stopped(self) -> bool:
        """Whether nothing is copied any more."""
        return self.state in _STOPPED

    def failure_of(self, partition: int) -> Loss | None:
        """The loss after which the partition is copied no further, or None."""
        for each in reversed(self.told):
            if each.partition == partition and each.kind.ends_mirroring:
                return each
        return None


def mirror_state(values: Mapping[str, str]) -> MirrorState | None:
    """The state that a topic's own settings say; None where it is no mirror. Raises MalformedState."""
    link = values.get(LINK_NAME.name)
    if not link:
        return None
    ends = [PartitionEnd.decode(each) for each in _items(values, LINK_ENDS.name)]
    return MirrorState(
        link=link,
        source_id=values.get(LINK_SOURCE_ID.name, ""),
        state=values.get(LINK_STATE.name, MIRRORING),
        epochs=decode_epochs(_items(values, LINK_EPOCHS.name)),
        ends={each.partition: each for each in ends},
        told=tuple(Loss.decode(each) for each in _items(values, LINK_TOLD.name)),
    )


def is_mirror(image: MetadataImage, topic: str) -> bool:
    """Whether a topic is read-only because a link fills it."""
    return bool(image.configs.get((TOPIC_RESOURCE, topic), {}).get(LINK_NAME.name))


def is_copied(image: MetadataImage, topic: str) -> bool:
    """Whether a topic's leaders still take the source's batches, with the source's epochs."""
    values = image.configs.get((TOPIC_RESOURCE, topic), {})
    return bool(values.get(LINK_NAME.name)) and values.get(LINK_STATE.name, MIRRORING) not in _STOPPED


def _items(values: Mapping[str, str], name: str) -> list[str]:
    return [each for each in values.get(name, "").split(",") if each]


def decode_epochs(items: list[str]) -> dict[int, int]:
    """The largest epoch of each partition. Raises MalformedState."""
    epochs: dict[int, int] = {}
    for each in items:
        try:
            partition, epoch = (int(part) for part in each.split(":"))
        except ValueError:
            raise MalformedState(f"{LINK_EPOCHS.name} has {each!r}") from None
        epochs[partition] = max(epoch, epochs.get(partition, -1))
    return epochs


def normalized(values: Mapping[str, str]) -> dict[str, str]:
    """The lists of a mirror topic's settings without what newer items replace, and within their bounds.

    Raises MalformedState.
    """
    state = mirror_state(values)
    if state is None:
        return dict(values)
    after = dict(values)
    _put(after, LINK_EPOCHS.name, [f"{part}:{epoch}" for part, epoch in sorted((state.epochs or {}).items())])
    _put(after, LINK_ENDS.name, [each.encode() for _, each in sorted((state.ends or {}).items())])
    _put(after, LINK_TOLD.name, [each.encode() for each in _kept(state.told)])
    return after


def _put(values: dict[str, str], name: str, items: list[str]) -> None:
    if items:
        values[name] = ",".join(items)
    else:
        values.pop(name, None)


def _kept(told: tuple[Loss, ...]) -> list[Loss]:
    """Each loss once, and not too many of them: the last of each partition before older ones."""
    once: list[Loss] = []
    for each in told:
        if not any(each.is_same_as(other) for other in once):
            once.append(each)
    if len(once) <= MAX_TOLD:
        return once
    last = {each.partition: place for place, each in enumerate(once)}
    must = set(last.values()) | {place for place, each in enumerate(once) if each.kind.ends_mirroring}
    room = max(0, MAX_TOLD - len(must))
    others = [place for place in range(len(once)) if place not in must]
    keep = must | set(others[len(others) - room :])
    return [each for place, each in enumerate(once) if place in keep]
