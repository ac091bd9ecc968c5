"""A partition's follower: the position of its next fetch, and the effects of the leader's answers.

Theory of operation. A follower fetches from its log's end and names the epoch of its last record. If the
leader has that record, its answer goes on from there. Otherwise it tells where the logs diverge: the largest
epoch in its log that is not above, and the end of that epoch. The follower truncates to the offset up to
which both agree at most (KIP-595; no other request is needed) and fetches again. Each round drops an epoch or
is the last.

    answer             effect
    records            appended verbatim, they begin at the log's end
    diverging epoch    Truncate
    OFFSET_OUT_OF_RANGE    AskOffsets: the leader's log is shorter (Truncate to its end) or begins later
                       (StartOver at its beginning)
    FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER and the like
                       AwaitMetadata: the leader or this node knows a newer epoch
    others             RetryLater

The high watermark is the leader's, or the log's end if that is smaller. It goes back only when the log is
cut: a committed offset stays committed, although a new leader may not know it yet.

An answer counts only for the position of its fetch: `on_answer` ignores any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ottla.core.replica.reading import EpochEnd
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Buffer

NO_EPOCH = -1


class FollowedLog(Protocol):
    """A follower's own log, for example `storage.log.Log`."""

    @property
    def log_start_offset(self) -> int:
        """The first offset."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch with an entry."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, the offset after its last record), or (-1, -1)."""


class FetchPosition(NamedTuple):
    """A partition's position as a fetch request names it."""

    fetch_offset: int
    last_fetched_epoch: int
    leader_epoch: int
    log_start_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """A leader's answer for the partition."""

    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: EpochEnd | None = None
    records: Buffer = b""


# -- effects ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Check the batches (CRC, offsets from `fetch_offset` on, epochs up to `leader_epoch`) and append them
    verbatim; then call `on_appended`. Batches that fail the check are dropped, and fetched again later.
    """

    records: Buffer
    fetch_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log and its epochs from `offset` on; then call `on_truncated`."""

    offset: int


@dataclass(frozen=True, slots=True)
class StartOver:
    """Drop the whole log, so that it begins at `offset`; then call `on_truncated`."""

    offset: int


@dataclass(frozen=True, slots=True)
class AdvanceLogStart:
    """Advance the log start to `offset`: the leader has deleted the records below."""

    offset: int


@dataclass(frozen=True, slots=True)
class AskOffsets:
    """Ask the leader for its log's start and end (ListOffsets with
    the position's leader epoch), then call `on_leader_offsets`.
    """

    position: FetchPosition


@dataclass(frozen=True, slots=True)
class AwaitMetadata:
    """Fetch again after a pause, or earlier if the metadata change."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Fetch again after a pause."""

    error: ErrorCode


NONSENSE: Final = RetryLater(ErrorCode.UNKNOWN_SERVER_ERROR)
"""The effect of an answer that makes no sense: the log stays as it is."""

Effect = AppendFetched | Truncate | StartOver | AdvanceLogStart | AskOffsets | AwaitMetadata | RetryLater

_OUTDATED = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class PartitionFollower:
    """The follower's state of one partition in one leader epoch."""

    __slots__ = ("_leader_high_watermark", "_log", "high_watermark", "leader_epoch", "leader_id")

    def __init__(self, *, leader_id: int, leader_epoch: int, log: FollowedLog, high_watermark: int) -> None:
        """`high_watermark` is the one known before this leader epoch."""
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self._log = log
        self.high_watermark = min(high_watermark, log.log_end_offset)
        self._leader_high_watermark = self.high_watermark

    def position(self) -> FetchPosition:
        """The position of the next fetch."""
        log = self._log
        latest = log.latest_epoch
        return FetchPosition(
            log.log_end_offset,
            NO_EPOCH if latest is None else latest,
            self.leader_epoch,
            log.log_start_offset,
            self.high_watermark,
        )

    def on_answer(self, asked: FetchPosition, answer: FetchAnswer) -> Sequence[Effect]:
        """The effects of the leader's answer to a fetch of `asked`."""
        log = self._log
        if asked.leader_epoch != self.leader_epoch or asked.fetch_offset != log.log_end_offset:
            return ()
        if answer.error is not ErrorCode.NONE:
            if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                return (AskOffsets(asked),)
            if answer.error in _OUTDATED:
                return (AwaitMetadata(answer.error),)
            return (RetryLater(answer.error),)
        if answer.diverging is not None:
            if answer.diverging.epoch >= 0 and answer.diverging.end_offset < 0:
                return (NONSENSE,)
            return (self._truncate(answer.diverging),)
        self._leader_high_watermark = answer.high_watermark
        effects: list[Effect] = []
        if len(answer.records):
            effects.append(AppendFetched(answer.records, asked.fetch_offset, self.leader_epoch))
        else:
            self._move_high_watermark()
        if answer.log_start_offset > log.log_start_offset:
            effects.append(AdvanceLogStart(answer.log_start_offset))
        return effects

    def on_leader_offsets(self, asked: FetchPosition, start_offset: int, end_offset: int) -> Sequence[Effect]:
        """The leader's log holds the offsets from `start_offset` to `end_offset` (exclusive)."""
        log = self._log
        if asked.leader_epoch != self.leader_epoch or asked.fetch_offset != log.log_end_offset:
            return ()
        if not 0 <= start_offset <= end_offset:
            return (NONSENSE,)
        if end_offset < log.log_end_offset:
            return (Truncate(end_offset),) if end_offset >= log.log_start_offset else (StartOver(end_offset),)
        if start_offset > log.log_end_offset:
            return (StartOver(start_offset),)
        return ()

    def on_appended(self) -> None:
        """The fetched batches are in the log."""
        self._move_high_watermark()

    def on_truncated(self) -> None:
        """The log was cut: the high watermark is its end at most."""
        log = self._log
        self.high_watermark = min(max(self.high_watermark, log.log_start_offset), log.log_end_offset)
        self._leader_high_watermark = self.high_watermark

    def _truncate(self, leaders: EpochEnd) -> Effect:
        """Cut to the end of the epoch that both logs have,
        otherwise to the end of this log's next lower epoch.
        """
        end = self._log.log_end_offset
        if leaders.epoch < 0:
            return Truncate(min(max(leaders.end_offset, 0), end))
        own = EpochEnd(*self._log.end_offset_for_epoch(leaders.epoch))
        if own.epoch < 0:
            return Truncate(min(leaders.end_offset, end))
        if own.epoch != leaders.epoch:
            return Truncate(min(own.end_offset, end))
        return Truncate(min(own.end_offset, leaders.end_offset, end))

    def _move_high_watermark(self) -> None:
        committed = min(self._leader_high_watermark, self._log.log_end_offset)
        if committed > self.high_watermark:
            self.high_watermark = committed
