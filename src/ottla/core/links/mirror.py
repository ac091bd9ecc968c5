"""A mirrored partition's leader towards its source: the position of its next fetch, the effects of answers.

Theory of operation. Towards its own followers the leader of a mirrored partition is an ordinary leader;
towards the source it does as a follower does, but asks as a consumer: it fetches from its log's end, read
uncommitted, and names the epoch of its last record. What comes is below the source's high watermark, and is
appended verbatim, with the source's leader epochs. The leader writes no epoch of its own, so the epochs of
the mirror's log are the source's, and the same comparison by epochs (KIP-595) works between source and
mirror, and between the mirror's replicas: one (epoch, offset) is one record everywhere.

    answer             effect
    records            AppendMirrored, as long as no batch is above this partition's leader epoch; then
                       RaiseEpoch first, which ends in a new leader epoch here, and the fetch begins again
    diverging epoch    an unclean election cut the source's log: Tell(TRUNCATED), then Truncate likewise
    OFFSET_OUT_OF_RANGE    AskOffsets. The source's log begins later: Tell(GAP), then StartOver there (nothing
                       to tell where the mirror is empty: it begins). It ends earlier: an epoch that could be
                       compared would have told where, so the source has none. Tell(LOST), and no more is
                       copied, if that stays so for a few fetches: another leader may have answered
    topic ids differ   LookForTopic: the topic was deleted, or moved on in a way that metadata tell
    not the leader     LookForLeader
    others             RetryLater

What is told is durable before the log is changed for it: the order of a list of effects is the order in which
they are performed. An answer counts only for the position of its fetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.core.links.topic_state import LossKind
from ottla.core.replica.follower import FollowedLog
from ottla.core.replica.reading import EpochEnd
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Buffer

NO_EPOCH: Final = -1
TIMES_SHORT: Final = 4
"""How often in a row a source must have less than the mirror, and no epoch to compare."""


class MirrorPosition(NamedTuple):
    """A mirrored partition's position as a fetch names it."""

    fetch_offset: int
    last_fetched_epoch: int


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """The answer of the source's leader for the partition."""

    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: EpochEnd | None = None
    records: Buffer = b""


# -- effects ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AppendMirrored:
    """Check the batches and append them verbatim, see `appendable`."""

    records: Buffer
    fetch_offset: int


@dataclass(frozen=True, slots=True)
class RaiseEpoch:
    """Have the controller raise this partition's leader epoch to at least this one."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Tell:
    """Make it durable that the source lost something; see `Loss` for the offsets."""

    kind: LossKind
    from_offset: int
    to_offset: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log and its epochs from `offset` on."""

    offset: int


@dataclass(frozen=True, slots=True)
class StartOver:
    """Drop the whole log, so that it begins at `offset`."""

    offset: int


@dataclass(frozen=True, slots=True)
class AdvanceLogStart:
    """Advance the log start: the source has deleted the records below."""

    offset: int


@dataclass(frozen=True, slots=True)
class AskOffsets:
    """Ask the source's leader where its log begins and ends, then call `on_source_offsets`."""

    position: MirrorPosition


@dataclass(frozen=True, slots=True)
class LookForLeader:
    """Ask the source for its metadata, and fetch again."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LookForTopic:
    """Ask the source for its metadata, then call `on_source_topic`."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Fetch again after a pause."""

    error: ErrorCode


Effect = (
    AppendMirrored
    | RaiseEpoch
    | Tell
    | Truncate
    | StartOver
    | AdvanceLogStart
    | AskOffsets
    | LookForLeader
    | LookForTopic
    | RetryLater
)
NONSENSE: Final = RetryLater(ErrorCode.UNKNOWN_SERVER_ERROR)

_LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
_TOPIC_MOVED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class PartitionMirror:
    """The state of one mirrored partition in one leader epoch of this cluster."""

    __slots__ = ("_log", "_times_short", "leader_epoch", "source_high_watermark", "source_start_offset")

    def __init__(self, *, leader_epoch: int, log: FollowedLog) -> None:
        self.leader_epoch = leader_epoch
        self._log = log
        self._times_short = 0
        self.source_high_watermark = -1
        """The source's, as its last answer said; -1 before one."""
        self.source_start_offset = -1

    @property
    def lag(self) -> int | None:
        """How many offsets are left to copy, as of the last answer; None before one."""
        if self.source_high_watermark < 0:
            return None
        return max(0, self.source_high_watermark - self._log.log_end_offset)

    def position(self) -> MirrorPosition:
        """The position of the next fetch."""
        latest = self._log.latest_epoch
        return MirrorPosition(self._log.log_end_offset, NO_EPOCH if latest is None else latest)

    def on_answer(self, asked: MirrorPosition, answer: SourceAnswer) -> Sequence[Effect]:
        """The effects of an answer to a fetch of `asked`, in the order in which they are to be performed."""
        log = self._log
        if asked.fetch_offset != log.log_end_offset:
            return ()
        if answer.error is not ErrorCode.NONE:
            if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                return (AskOffsets(asked),)
            if answer.error in _TOPIC_MOVED:
                return (LookForTopic(answer.error),)
            if answer.error in _LEADER_MOVED:
                return (LookForLeader(answer.error),)
            return (RetryLater(answer.error),)
        self._times_short = 0
        if answer.diverging is not None:
            return self._diverged(answer.diverging)
        self.source_high_watermark = answer.high_watermark
        self.source_start_offset = max(self.source_start_offset, answer.log_start_offset)
        effects: list[Effect] = []
        if len(answer.records):
            effects.append(AppendMirrored(answer.records, asked.fetch_offset))
        if answer.log_start_offset > log.log_start_offset:
            effects.append(AdvanceLogStart(answer.log_start_offset))
        return effects

    def appendable(self, epochs: Sequence[int]) -> int:
        """How many of these batches, by their leader epochs, may be appended in this leader epoch.

        The first one that may not needs `RaiseEpoch` to its own.
        """
        for count, epoch in enumerate(epochs):
            if epoch > self.leader_epoch:
                return count
        return len(epochs)

    def on_source_offsets(
        self, asked: MirrorPosition, start_offset: int, end_offset: int
    ) -> Sequence[Effect]:
        """The source's log holds the offsets from `start_offset` to `end_offset` (exclusive)."""
        log = self._log
        end = log.log_end_offset
        if asked.fetch_offset != end:
            return ()
        if not 0 <= start_offset <= end_offset:
            return (NONSENSE,)
        if start_offset > end:
            # A log that is empty and at its start has nothing that could be missing: the mirror begins here.
            begins = end == 0 and log.log_start_offset == 0
            told = () if begins else (Tell(LossKind.GAP, end, start_offset),)
            return (*told, StartOver(start_offset))
        if end_offset < end:
            self._times_short += 1
            if self._times_short < TIMES_SHORT:
                return (RetryLater(ErrorCode.OFFSET_OUT_OF_RANGE),)
            return (Tell(LossKind.LOST, end, end_offset),)
        # Both hold the offset now, by what the source has appended since: the next fetch compares epochs.
        return (RetryLater(ErrorCode.OFFSET_OUT_OF_RANGE),)

    def on_source_topic(self, known_id: str, found_id: str | None) -> Sequence[Effect]:
        """The source's topic of this name has `found_id`; None where there is none."""
        end = self._log.log_end_offset
        if found_id is None:
            return (Tell(LossKind.DELETED, end, end),)
        if found_id != known_id:
            return (Tell(LossKind.RECREATED, end, 0),)
        return (LookForLeader(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),)

    def _diverged(self, source: EpochEnd) -> Sequence[Effect]:
        """Cut to the end of the epoch that both logs have, else to that of this log's next lower one.

        Each round drops an epoch or is the last; each is told with its own offsets.
        """
        log = self._log
        end = log.log_end_offset
        if source.end_offset < 0:
            return (NONSENSE,)
        if source.epoch < 0:
            cut = source.end_offset
        else:
            own = EpochEnd(*log.end_offset_for_epoch(source.epoch))
            if own.epoch < 0:
                cut = source.end_offset
            elif own.epoch != source.epoch:
                cut = own.end_offset
            else:
                cut = min(own.end_offset, source.end_offset)
        cut = min(cut, end)
        if cut == end:
            return (NONSENSE,)
        told = Tell(LossKind.TRUNCATED, end, cut)
        if cut < log.log_start_offset:
            return (told, StartOver(cut))
        return (told, Truncate(cut))
