"""The journal of executions: a compacted topic that every copy reads, and that one at a time writes.

Theory of operation. The topic has one partition. The record `execution` is the one execution there may be:
its id, who carries it out, a number that the owner raises every few seconds, its throttle and the brokers on
which that is set. Its changes lie beside it in records of bounded size. An execution without an end whose
number does not rise for LEASE_SECONDS has lost its owner, and whoever comes next may take it over: readers
watch the number and need no common clock. Writers share a transactional id, so taking over fences the owner
before: a frozen one that wakes up finds that its next write is refused, reads who owns the execution now, and
leaves it. An owner writes before it changes anything in the cluster. The record `history` says which brokers
were removed and demoted, and is written with the end of the execution that did it.

Order of writes: the changes and the execution, in one transaction; then throttles; then moves. At the end
throttles go, then the record says `finished`, and the changes are deleted. So a kill at any point leaves an
execution that names all that has to be taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from ottla.balance.core.plan import Change
from ottla.client.access import ClusterAccess
from ottla.client.clock import now_ms
from ottla.config.errors import UserError
from ottla.replicated.errors import Fenced, StateError, TooLarge, Unstored
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.preparing import TopicSpec
from ottla.replicated.records import Record, ReplayedRecord
from ottla.replicated.topic import ReplicatedTopic

log = logging.getLogger("ottla.balance")

TOPIC: Final = "__ottla_balance"
WRITERS_ID: Final = "ottla-balance"
STEP_MS: Final = 30_000
LEASE_SECONDS: Final = 12.0
"""Without a beat for so long an execution has no owner any more."""
BEAT_SECONDS: Final = 3.0
LOOK_SECONDS: Final = 0.2
PATIENCE_SECONDS: Final = 60.0
"""For so long a write that fails is tried again, each time from the end of the topic."""
CHANGES_A_RECORD: Final = 2_000
EXECUTION: Final = b"execution"
CHANGES: Final = "changes"
STOP: Final = "stop"
HISTORY: Final = b"history"
STOPPED: Final = "stopped"
"""The outcome of an execution that somebody has stopped."""


class BalanceBusy(UserError):
    """Another copy carries an execution out; one line that says which."""


class LostExecution(UserError):
    """The execution belongs to another copy now."""


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution. throttle: bytes per second of each broker, None for none. beat: raised by its owner.

    throttled: brokers on which it sets the throttle, as nobody else has set one there. left_over: brokers of
    a finished one from which it could not be taken away. outcome: of a finished one. brokers: those that it
    adds, removes or demotes.
    """

    id: str
    purpose: str
    owner: str
    started_ms: int
    throttle: int | None = None
    throttled: tuple[int, ...] = ()
    beat: int = 0
    records: int = 0
    finished: bool = False
    outcome: str = ""
    left_over: tuple[int, ...] = ()
    brokers: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """As the record's value."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> Execution:
        """Raises ValueError, TypeError for a value of another kind."""
        fields: dict[str, Any] = json.loads(value)
        known = {name: fields[name] for name in cls.__dataclass_fields__ if name in fields}
        for name in ("throttled", "left_over", "brokers"):
            known[name] = tuple(known.get(name, ()))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class History:
    """When brokers were removed and demoted last, in ms since 1970; `add` forgets both."""

    removed: Mapping[int, int] = field(default_factory=dict)
    demoted: Mapping[int, int] = field(default_factory=dict)

    def after(self, purpose: str, brokers: Sequence[int], at_ms: int) -> History:
        """With what an execution has done to brokers."""
        removed, demoted = dict(self.removed), dict(self.demoted)
        match purpose:
            case "remove":
                removed |= dict.fromkeys(brokers, at_ms)
            case "demote":
                demoted |= dict.fromkeys(brokers, at_ms)
            case "add":
                return self.without(brokers, brokers)
        return History(removed, demoted)

    def without(self, removed: Collection[int], demoted: Collection[int]) -> History:
        """Without these brokers."""
        return History(
            {one: at for one, at in self.removed.items() if one not in removed},
            {one: at for one, at in self.demoted.items() if one not in demoted},
        )

    def removed_since(self, at_ms: int) -> frozenset[int]:
        """The brokers that were removed at that time or later."""
        return frozenset(one for one, at in self.removed.items() if at >= at_ms)

    def demoted_since(self, at_ms: int) -> frozenset[int]:
        """The brokers that were demoted at that time or later."""
        return frozenset(one for one, at in self.demoted.items() if at >= at_ms)

    def encode(self) -> bytes:
        """As the record's value."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> History:
        """Raises ValueError, TypeError, KeyError, AttributeError for a value of another kind."""
        fields = json.loads(value)
        found = (
            {int(broker): int(at) for broker, at in fields[name].items()} for name in ("removed", "demoted")
        )
        return cls(*found)


class Journal:
    """The journal of one cluster: `open`, then the rest, `close` at the end.

    lease_seconds: without a beat for so long an execution has no owner any more.
    """

    def __init__(self, access: ClusterAccess, lease_seconds: float = LEASE_SECONDS) -> None:
        self._lease_seconds = lease_seconds
        spec = TopicSpec(TOPIC, "executions of balance", _way_out)
        self._topic = ReplicatedTopic(access, spec, self._replay, WRITERS_ID, STEP_MS)
        self._reading: asyncio.Task[None] | None = None
        self._execution: Execution | None = None
        self._changes: dict[tuple[str, int], tuple[Change, ...]] = {}
        self._stops: dict[str, bool] = {}
        self._history = History()

    async def open(self) -> None:
        """Make the topic or check it, and read it to its end. Raises StateError."""
        await self._topic.prepare()
        self._reading = asyncio.create_task(self._topic.read(), name="reading the journal of balance")
        await self._retried(self._topic.read_to_end, "read")

    async def close(self) -> None:
        """End reading."""
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, StateError):
                await self._reading
        await self._topic.close()

    @property
    def is_lost(self) -> bool:
        """Whether its topic was deleted: nothing more is read or written."""
        return self._topic.loss is not None

    @property
    def execution(self) -> Execution | None:
        """The last execution; None before the first."""
        return self._execution

    @property
    def unfinished(self) -> Execution | None:
        """The execution that has no end yet."""
        return None if self._execution is None or self._execution.finished else self._execution

    @property
    def history(self) -> History:
        """What was done to brokers."""
        return self._history

    async def forget(self, removed: Collection[int], demoted: Collection[int]) -> None:
        """Forget that these brokers were removed, and those demoted. Raises StateError."""

        def is_stored() -> bool:
            now = self._history
            return not (now.removed.keys() & set(removed) or now.demoted.keys() & set(demoted))

        kept = self._history.without(removed, demoted)
        await self._store([Record(HISTORY, kept.encode())], is_stored)

    def changes_of(self, execution: Execution) -> tuple[Change, ...]:
        """The changes of an unfinished execution."""
        parts = [self._changes.get((execution.id, number), ()) for number in range(execution.records)]
        return tuple(change for part in parts for change in part)

    def stop_of(self, execution: Execution) -> bool | None:
        """Whether to end its moves at once; None where nobody has asked to stop it."""
        return self._stops.get(execution.id)

    async def has_owner(self, execution: Execution) -> bool:
        """Whether somebody carries it out: watches for a beat, as long as the lease at most."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._lease_seconds
        while loop.time() < end:
            now = self._execution
            if now is None or now.finished or now.id != execution.id:
                return False
            if (now.owner, now.beat) != (execution.owner, execution.beat):
                return True
            await asyncio.sleep(LOOK_SECONDS)
        return False

    async def begin(self, execution: Execution, changes: Sequence[Change]) -> Execution:
        """Store a new execution. Raises BalanceBusy if there is an unfinished one, StateError."""
        parts = [
            changes[start : start + CHANGES_A_RECORD] for start in range(0, len(changes), CHANGES_A_RECORD)
        ]
        begun = replace(execution, records=len(parts))
        records = [
            Record(_key(CHANGES, begun.id, number), _encoded(part)) for number, part in enumerate(parts)
        ]

        def is_stored() -> bool:
            return self.unfinished == begun or self._require_free()

        await self._store([*records, Record(EXECUTION, begun.encode())], is_stored)
        return begun

    def _require_free(self) -> bool:
        """False, as nothing is stored yet. Raises BalanceBusy."""
        if (other := self.unfinished) is not None:
            raise BalanceBusy(busy_line(other))
        return False

    async def adopt(self, execution: Execution, owner: str) -> Execution:
        """Become the owner of an execution that has lost its own. Raises BalanceBusy, StateError."""
        adopted = replace(execution, owner=owner, beat=execution.beat + 1)

        def is_stored() -> bool:
            now = self.unfinished
            if now is None:
                raise BalanceBusy("the execution has come to its end")
            if now not in (execution, adopted):
                raise BalanceBusy(busy_line(now))
            return now == adopted

        await self._store([Record(EXECUTION, adopted.encode())], is_stored)
        return adopted

    async def beat(self, execution: Execution) -> Execution:
        """Tell that its owner is alive, before it does anything. Raises LostExecution, StateError."""
        following = replace(execution, beat=execution.beat + 1)
        await self._store_mine(execution, [Record(EXECUTION, following.encode())])
        return following

    async def finish(self, execution: Execution, outcome: str, left_over: Sequence[int]) -> None:
        """Store the end, and delete the changes. Raises LostExecution, StateError."""
        finished = replace(execution, finished=True, outcome=outcome, left_over=tuple(left_over))
        tombstones = [
            Record(_key(CHANGES, execution.id, number), None) for number in range(execution.records)
        ]
        stop = [Record(_key(STOP, execution.id), None)] if execution.id in self._stops else []
        history = self._history.after(execution.purpose, execution.brokers, now_ms())
        kept = [Record(HISTORY, history.encode())] if outcome != STOPPED and history != self._history else []
        await self._store_mine(execution, [Record(EXECUTION, finished.encode()), *tombstones, *stop, *kept])

    async def cleaned(self, execution: Execution, left_over: Sequence[int]) -> None:
        """Store which brokers of a finished execution still have its throttle. Raises StateError."""
        cleaned = replace(execution, left_over=tuple(left_over))
        await self._store([Record(EXECUTION, cleaned.encode())], lambda: self._execution != execution)

    async def ask_to_stop(self, execution: Execution, at_once: bool) -> None:
        """Ask its owner to stop: to begin no further moves, or to end those under way too."""
        value = json.dumps({"at_once": at_once}).encode()
        try:
            await self._topic.add([Record(_key(STOP, execution.id), value)])
        except (TooLarge, Unstored, TopicLost) as problem:
            raise StateError(f"topic {TOPIC}: the request to stop was not stored: {problem}") from None

    # -- writing -------------------------------------------------------------------------------------------

    async def _store_mine(self, execution: Execution, records: Sequence[Record]) -> None:
        """Store records of an execution that is this owner's. Raises LostExecution, StateError."""

        def is_stored() -> bool:
            now = self._execution
            if now is not None and records[0].value == now.encode():
                return True
            if now is None or now.finished or (now.id, now.owner) != (execution.id, execution.owner):
                raise LostExecution("the execution belongs to another copy of ottla balance now")
            return False

        await self._store(records, is_stored)

    async def _store(self, records: Sequence[Record], is_stored: Callable[[], bool]) -> None:
        """Store records, all or none, again and again for a while: the topic's own leader may be moving.

        is_stored: whether a try before has stored them; raises where they may not be stored any more. It is
        asked of all that is in the topic, while nobody else can write.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_SECONDS
        while True:
            try:
                if not self._topic.writable:
                    await self._take_over()
                if not is_stored():
                    await self._append(records)
                return
            except StateError as problem:
                if self.is_lost or loop.time() > end:
                    raise
                log.info("%s; it is written again", problem)
            await asyncio.sleep(LOOK_SECONDS)

    async def _take_over(self) -> None:
        await self._retried(self._topic.take_over, "written")

    async def _retried(self, step: Callable[[], Awaitable[None]], done: str) -> None:
        """A step over the topic, again while its leader moves. Raises StateError."""
        reason = "no answer in time"
        try:
            async with asyncio.timeout(2 * STEP_MS / 1_000):
                while True:
                    try:
                        await step()
                        return
                    except Unstored as problem:
                        reason = str(problem)
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            pass
        except (Fenced, TopicLost) as problem:
            reason = str(problem)
        raise StateError(f"topic {TOPIC} can't be {done}: {reason}")

    async def _append(self, records: Sequence[Record]) -> None:
        try:
            async with asyncio.timeout(2 * STEP_MS / 1_000):
                await self._topic.append(records)
        except (TimeoutError, Fenced, TooLarge, Unstored, TopicLost) as problem:
            raise StateError(
                f"topic {TOPIC} can't be written: {str(problem) or 'no answer in time'}"
            ) from None

    # -- replay --------------------------------------------------------------------------------------------

    def _replay(self, record: ReplayedRecord) -> None:
        kind, *rest = record.key.decode("utf-8", "replace").split("/")
        with contextlib.suppress(
            ValueError, TypeError, KeyError, AttributeError
        ):  # records of another version
            match kind, rest:
                case "execution", []:
                    self._execution = None if record.value is None else Execution.decode(record.value)
                case "history", []:
                    self._history = History() if record.value is None else History.decode(record.value)
                case "changes", [execution, number]:
                    if record.value is None:
                        self._changes.pop((execution, int(number)), None)
                    else:
                        self._changes[execution, int(number)] = _decoded(record.value)
                case "stop", [execution]:
                    if record.value is None:
                        self._stops.pop(execution, None)
                    else:
                        self._stops[execution] = bool(json.loads(record.value)["at_once"])


def _key(*parts: object) -> bytes:
    return "/".join(map(str, parts)).encode()


def _encoded(changes: Sequence[Change]) -> bytes:
    rows = [[one.topic, one.partition, one.before, one.after, one.leader, one.size] for one in changes]
    return json.dumps(rows, separators=(",", ":")).encode()


def _decoded(value: bytes) -> tuple[Change, ...]:
    return tuple(
        Change(topic, partition, tuple(before), tuple(after), leader, size)
        for topic, partition, before, after, leader, size in json.loads(value)
    )


def busy_line(other: Execution) -> str:
    """The line for a user who wants to begin while an execution is carried out."""
    return f"{other.owner} carries out {other.purpose} {other.id}: wait for its end, or `ottla balance stop`"


def _way_out(_: Loss) -> str:
    return f"Start ottla balance again: it makes topic {TOPIC}. Throttles of an execution may be left over."
