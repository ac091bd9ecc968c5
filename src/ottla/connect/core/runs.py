"""The state machine of the connectors and tasks of one worker: what to start, stop, pause and tell now.

Theory of operation. `want` says which connectors and tasks this worker is to run, and of what configuration
(`Wanted.revision`). Each has at most one run, known by a number that is never used twice: words about
another run than the present one are ignored. A run that is to be another one (a changed configuration, a
restart) is stopped first, and started when it has ended; so no two runs of one task are ever there at the
same time.
A run that fails is started again after a pause, and stays FAILED when the policy has no more attempts.

Every method returns the effects that the worker performs, in their order.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ottla.connect.core.ids import State, TargetState, TaskId
from ottla.connect.core.restarts import Failures, RestartPolicy


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to run. revision: runs of two revisions do different work. version: of the plugin."""

    revision: int
    target: TargetState
    version: str | None = None

    @property
    def paused(self) -> bool:
        """Whether the run is to rest."""
        return self.target is TargetState.PAUSED


@dataclass(frozen=True, slots=True)
class StartRun:
    """Begin a run of this number."""

    id: TaskId
    number: int
    paused: bool


@dataclass(frozen=True, slots=True)
class StopRun:
    """End a run in order."""

    id: TaskId
    number: int


@dataclass(frozen=True, slots=True)
class PauseRun:
    """Let a run rest, or go on."""

    id: TaskId
    number: int
    paused: bool


@dataclass(frozen=True, slots=True)
class Tell:
    """Publish a status. revision: of the work that the state is about; None: it is about none."""

    id: TaskId
    state: State
    trace: str | None = None
    version: str | None = None
    revision: int | None = None


Effect = StartRun | StopRun | PauseRun | Tell


class Phase(enum.Enum):
    """Where a connector or task is."""

    IDLE = "idle"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    WAITING = "waiting"
    FAILED = "failed"
    DONE = "done"


_LIVE = frozenset({Phase.STARTING, Phase.RUNNING, Phase.PAUSED})


@dataclass(slots=True)
class _Entry:
    wanted: Wanted | None
    phase: Phase = Phase.IDLE
    number: int = 0
    started: Wanted | None = None
    asked_paused: bool = False
    is_restarting: bool = False
    until_ms: int = 0
    failures: Failures = field(default_factory=Failures)


class Runs:
    """The runs of a worker. Times are of any clock that never goes back."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._entries: dict[TaskId, _Entry] = {}
        self._number = 0

    # -- what there is --------------------------------------------------------------------------------

    def phase(self, id: TaskId) -> Phase | None:
        """Where a connector or task is; None for one that this worker has nothing to do with."""
        entry = self._entries.get(id)
        return None if entry is None else entry.phase

    def is_current(self, id: TaskId, number: int) -> bool:
        """Whether a run is the present one and has not ended."""
        entry = self._entries.get(id)
        return (
            entry is not None
            and entry.number == number
            and (entry.phase in _LIVE or entry.phase is Phase.STOPPING)
        )

    def is_live(self, id: TaskId, number: int) -> bool:
        """Whether a run is the present one and is not being stopped."""
        entry = self._entries.get(id)
        return entry is not None and entry.number == number and entry.phase in _LIVE

    def has_run(self, id: TaskId) -> bool:
        """Whether a run is under way, also one that is being stopped."""
        entry = self._entries.get(id)
        return entry is not None and (entry.phase in _LIVE or entry.phase is Phase.STOPPING)

    def revision(self, id: TaskId) -> int | None:
        """What the last run was started for; None for one that was never started here."""
        entry = self._entries.get(id)
        return None if entry is None or entry.started is None else entry.started.revision

    @property
    def phases(self) -> Mapping[TaskId, Phase]:
        """All connectors and tasks of this worker."""
        return {id: entry.phase for id, entry in self._entries.items()}

    @property
    def next_ms(self) -> int | None:
        """When `tick` has something to do."""
        return min(
            (each.until_ms for each in self._entries.values() if each.phase is Phase.WAITING), default=None
        )

    # -- events ---------------------------------------------------------------------------------------

    def want(self, wanted: Mapping[TaskId, Wanted]) -> list[Effect]:
        """From now on these are to run here, and nothing else."""
        effects: list[Effect] = []
        for id in {**self._entries, **wanted}:
            found = wanted.get(id)
            entry = self._entries.get(id)
            if entry is None:
                if found is None:
                    continue
                entry = self._entries[id] = _Entry(None)
            if entry.wanted is not None and found is not None and entry.wanted.revision != found.revision:
                entry.failures.forget()
            entry.wanted = found
            effects += self._settle(id, entry)
        return effects

    def restart(self, ids: Collection[TaskId]) -> list[Effect]:
        """A user wants these to begin anew."""
        effects: list[Effect] = []
        for id in ids:
            entry = self._entries.get(id)
            if entry is None or entry.wanted is None:
                continue
            entry.failures.forget()
            entry.is_restarting = True
            effects.append(_told(id, entry, State.RESTARTING))
            effects += self._settle(id, entry)
        return effects

    def running(self, id: TaskId, number: int) -> list[Effect]:
        """The run has begun, or goes on."""
        entry = self._entries.get(id)
        if entry is None or entry.number != number or entry.phase not in _LIVE:
            return []
        entry.phase = Phase.RUNNING
        return [_told(id, entry, State.RUNNING), *self._settle(id, entry)]

    def paused(self, id: TaskId, number: int) -> list[Effect]:
        """The run rests."""
        entry = self._entries.get(id)
        if entry is None or entry.number != number or entry.phase not in _LIVE:
            return []
        entry.phase = Phase.PAUSED
        return [_told(id, entry, State.PAUSED), *self._settle(id, entry)]

    def ended(
        self, id: TaskId, number: int, trace: str | None, now_ms: int, *, counts: bool = True
    ) -> list[Effect]:
        """The run is over. trace: why it failed. counts: False where the run itself is not to blame."""
        entry = self._entries.get(id)
        if entry is None or entry.number != number or not self.has_run(id):
            return []
        was_stopping = entry.phase is Phase.STOPPING
        entry.phase = Phase.IDLE
        if was_stopping:
            return self._settle(id, entry)
        if trace is None:
            # A run that can't rest ends in place of it; any other has done all that there is to do.
            entry.phase = Phase.PAUSED if entry.asked_paused else Phase.DONE
            entry.number = 0
            paused = [_told(id, entry, State.PAUSED)] if entry.asked_paused else []
            return [*paused, *self._settle(id, entry)]
        return self._failed(id, entry, trace, now_ms, counts)

    def abandon_all(self) -> None:
        """Others may run everything by now: the runs here were killed, and nothing is to be told of them."""
        self._entries.clear()

    def tick(self, now_ms: int) -> list[Effect]:
        """Start what has waited for long enough."""
        effects: list[Effect] = []
        for id, entry in list(self._entries.items()):
            if entry.phase is Phase.WAITING and entry.until_ms <= now_ms:
                entry.phase = Phase.IDLE
                effects += self._settle(id, entry)
        return effects

    # -- decisions ------------------------------------------------------------------------------------

    def _failed(self, id: TaskId, entry: _Entry, trace: str, now_ms: int, counts: bool) -> list[Effect]:
        if entry.wanted is None or entry.wanted.revision != getattr(entry.started, "revision", None):
            return self._settle(id, entry)
        pause_ms: int | None = self._policy.first_pause_ms
        if counts or not self._policy.most:
            pause_ms = entry.failures.pause_ms(self._policy, now_ms)
        if pause_ms is None:
            entry.phase = Phase.FAILED
            return [_told(id, entry, State.FAILED, trace)]
        entry.phase, entry.until_ms = Phase.WAITING, now_ms + pause_ms
        return [_told(id, entry, State.RESTARTING, trace)]

    def _settle(self, id: TaskId, entry: _Entry) -> list[Effect]:
        """The next step towards what is wanted."""
        wanted = entry.wanted
        started = entry.started
        is_other = wanted is not None and started is not None and wanted.revision != started.revision
        if entry.phase in _LIVE and entry.number:
            if wanted is None or is_other or entry.is_restarting or wanted.target is TargetState.STOPPED:
                entry.phase = Phase.STOPPING
                return [StopRun(id, entry.number)]
            if wanted.paused != entry.asked_paused:
                entry.asked_paused = wanted.paused
                return [PauseRun(id, entry.number, wanted.paused)]
            return []
        if entry.phase is Phase.STOPPING:
            return []
        if wanted is None:
            del self._entries[id]
            return [Tell(id, State.UNASSIGNED)]
        if wanted.target is TargetState.STOPPED:
            is_new = entry.started != wanted or entry.is_restarting
            entry.phase, entry.started, entry.is_restarting = Phase.IDLE, wanted, False
            return [_told(id, entry, State.STOPPED)] if is_new else []
        resumes = entry.phase is Phase.PAUSED and not wanted.paused
        if entry.phase is Phase.IDLE or is_other or entry.is_restarting or resumes:
            return self._start(id, entry, wanted)
        return []

    def _start(self, id: TaskId, entry: _Entry, wanted: Wanted) -> list[Effect]:
        self._number += 1
        entry.number, entry.phase, entry.started = self._number, Phase.STARTING, wanted
        entry.asked_paused, entry.is_restarting = wanted.paused, False
        return [StartRun(id, self._number, wanted.paused)]


def _told(id: TaskId, entry: _Entry, state: State, trace: str | None = None) -> Tell:
    """A state of the run that there is, or was last."""
    version = None if entry.wanted is None else entry.wanted.version
    return Tell(id, state, trace, version, None if entry.started is None else entry.started.revision)
