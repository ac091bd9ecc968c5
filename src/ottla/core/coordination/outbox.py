"""The effects of a shard's step: answers, records to append, notes; and the requests that are still open.

Theory of operation. Every request is open from its arrival until its one answer. A decision that must be
durable before it takes effect is an append with two continuations: `done` runs once the records are committed
(and replayed), `failed` if they were not written, or were not committed in time. After a timeout the request
has been answered, so neither runs any more; if the records are committed later, they are still replayed,
because they are in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.core.coordination.api import Append, Moment, Note, ProducerStamp, Reply, RequestReceived
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.coordination.timers import TimerKey, Timers
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message


@dataclass(frozen=True, slots=True)
class Continuation:
    """The two continuations of an append: exactly one of them runs."""

    done: Callable[[], None]
    failed: Callable[[ErrorCode], None]


@dataclass(slots=True)
class PendingAppend:
    """Records on their way to the log, and the continuations; after a timeout there are none left."""

    records: tuple[CoordinatorRecord, ...]
    continuations: list[Continuation]
    producer: ProducerStamp | None
    at_end: list[Callable[[], None]] = field(default_factory=list)

    def succeed(self) -> None:
        """The records are committed and replayed: run the continuations for that."""
        for continuation in self.continuations:
            continuation.done()
        for action in self.at_end:
            action()

    def fail(self, error: ErrorCode) -> None:
        """The records were not written: run the continuations for that."""
        for continuation in self.continuations:
            continuation.failed(error)
        for action in self.at_end:
            action()


Refusal = Callable[[Message, ErrorCode], Message]
"""Makes the answer to a request that holds only an error, in the field where the request's API has it."""


class Outbox:
    """Collects the effects of one step; keeps the open requests, the pending appends and the clock."""

    def __init__(self, commit_timeout_ms: int, refusal: Refusal) -> None:
        self.timers = Timers()
        self._commit_timeout_ms = commit_timeout_ms
        self._refusal = refusal
        self.now = Moment(0, 0)
        self._pending_appends: dict[int, PendingAppend] = {}
        self._open_requests: dict[int, RequestReceived] = {}
        self._effects: list[Any] = []
        self._next_append_id = 0

    def take_effects(self) -> list[Any]:
        effects, self._effects = self._effects, []
        return effects

    def emit(self, effect: object) -> None:
        """Add an effect that only this kind of coordinator has."""
        self._effects.append(effect)

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        """Give `key` a deadline `delay_ms` from now, in place of any earlier one."""
        self.timers.set(key, self.now.steady_ms + delay_ms)

    def open(self, event: RequestReceived) -> None:
        assert event.request_id not in self._open_requests, "a request id is used once"
        self._open_requests[event.request_id] = event

    def is_open(self, request_id: int) -> bool:
        return request_id in self._open_requests

    def reply(self, request_id: int, response: Message) -> None:
        """Answer an open request."""
        del self._open_requests[request_id]
        self._effects.append(Reply(request_id, response))

    def reply_all(self, error: ErrorCode) -> None:
        """Answer every open request with `error`."""
        for request_id, event in list(self._open_requests.items()):
            self.reply(request_id, self._refusal(event.request, error))

    def fail(self, request_id: int, error: ErrorCode) -> None:
        """Answer an open request with `error` and nothing else."""
        self.reply(request_id, self._refusal(self._open_requests[request_id].request, error))

    def note(self, message: str, *arguments: object) -> None:
        self._effects.append(Note(message, arguments))

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        done: Callable[[], None],
        failed: Callable[[ErrorCode], None],
        producer: ProducerStamp | None = None,
    ) -> int:
        """Request the append of `records`; one of the continuations will run. Returns the append's id."""
        append_id = self._next_append_id
        self._next_append_id += 1
        self._pending_appends[append_id] = PendingAppend(
            tuple(records), [Continuation(done, failed)], producer
        )
        self.set_timer(TimerKey("append", number=append_id), self._commit_timeout_ms)
        self._effects.append(Append(append_id, tuple(records), producer))
        return append_id

    def last_append_id(self) -> int | None:
        """The newest append that has not ended, or None when all have."""
        return next(reversed(self._pending_appends), None)

    def when_ended(
        self, append_id: int, done: Callable[[], None], failed: Callable[[ErrorCode], None]
    ) -> None:
        """Run one of these too when an append ends, after the continuations that it has already."""
        self._pending_appends[append_id].continuations.append(Continuation(done, failed))

    def at_end(self, append_id: int, action: Callable[[], None]) -> None:
        """Run `action` when an append has really ended, after its continuations; a timeout is not the end."""
        self._pending_appends[append_id].at_end.append(action)

    def take_append(self, append_id: int) -> PendingAppend:
        """An append has ended: forget it and its timeout.
        The caller runs its continuations, see PendingAppend.
        """
        oldest = next(iter(self._pending_appends), None)
        assert oldest == append_id, f"append {append_id} ended before append {oldest}"
        self.timers.cancel(TimerKey("append", number=append_id))
        return self._pending_appends.pop(append_id)

    def on_append_timeout(self, append_id: int) -> None:
        """The records are still not committed: run `failed`, and keep waiting for the log."""
        pending = self._pending_appends[append_id]
        waiting, pending.continuations = pending.continuations, []
        self.note("append to the group log is slow append_id=%d", append_id)
        for continuation in waiting:
            continuation.failed(ErrorCode.REQUEST_TIMED_OUT)


def answer_for(error: ErrorCode) -> ErrorCode:
    """The client's error when an append ended with `error`: find the coordinator again, or give up."""
    match error:
        case (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode.NOT_ENOUGH_REPLICAS
            | ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            | ErrorCode.REQUEST_TIMED_OUT
        ):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE | ErrorCode.INVALID_FETCH_SIZE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            return error
