"""The sessions that outlive their connections: begun, taken over, kept, ended.

Theory of operation. What is known of a session is in memory, and in the record that session_log.py keeps. A
client is told of it by CONNACK, SUBACK and UNSUBACK, each after its record is stored. How far it has got is
stored when its connection ends, and every KEEP_SECONDS while it acknowledges: after a kill it may get again
what it acknowledged since.

A will is in the record from CONNECT on. It is stored when it is due, and leaves the record after that: a kill
in between stores it again. All sessions that are found without an end of their connection have lost that by a
kill of the proxy, and are looked after from then on.

A shard that is lost, to another copy or by a cluster that is away, ends the connections of its sessions: what
they would be told from then on might not be true. The next of its clients that connects takes it over again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from ottla.mqtt.core.connection import Ended
from ottla.mqtt.core.packets import Connect, Will
from ottla.mqtt.core.session import NEVER, Session, granted_seconds, will_delay
from ottla.mqtt.core.session_state import KeptWill, SessionState, UnreadableState, decoded, encoded
from ottla.mqtt.core.subscriptions import Place
from ottla.mqtt.figures import MqttFigures
from ottla.mqtt.session_log import SessionLog, Unstored

log = logging.getLogger("ottla.mqtt")

KEEP_SECONDS: Final = 2.0
FIND_AGAIN_SECONDS: Final = 5.0
CONNECTED: Final = "connected"
AWAY: Final = "away"
MOST_CLEANED: Final = 100_000
"""Clients that have begun anew before the sessions were read."""

StoreWill = Callable[[str, Will, Callable[[], None]], None]
"""Stores the will of a client, and calls when that is done, or refused."""


class Holder(Protocol):
    """The connection of a session's client."""

    def end(self, reason: Ended) -> None:
        """End it; the session is left before this returns."""

    def positions(self) -> Mapping[Place, int]:
        """The first offsets that it is yet to be given."""


@dataclass(slots=True)
class _Entry:
    session: Session
    holder: Holder | None = None
    left_ms: int | None = None
    will: KeptWill | None = None
    has_changed: bool = False
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def cancel(self) -> None:
        """Let nothing happen to it by time alone."""
        for each in self.timers:
            each.cancel()
        self.timers.clear()


class Sessions:
    """Those of one service. most_seconds: the longest that they outlive their connections."""

    def __init__(
        self,
        make_log: Callable[[Callable[[int], None]], SessionLog],
        most_seconds: int,
        store_will: StoreWill,
        figures: MqttFigures,
    ) -> None:
        self._log = make_log(self._lost)
        self._most_seconds = most_seconds
        self._store_will = store_will
        self._figures = figures
        self._entries: dict[str, _Entry] = {}
        self._cleaned: set[str] | None = set()
        self._owning: dict[int, asyncio.Lock] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stops = False
        self._is_alone = True

    # -- the service's side ---------------------------------------------------------------------------------

    def start(self, *, is_alone: bool = True) -> None:
        """Look after the sessions that are there, if no other copies do; the cluster need not be."""
        self._is_alone = is_alone
        loop = asyncio.get_running_loop()
        if self._most_seconds or not is_alone:
            self._tasks.append(loop.create_task(self._keep(), name="keeping sessions"))
        if self._most_seconds and is_alone:
            self._tasks.append(loop.create_task(self._find(), name="finding sessions"))

    async def stop(self) -> None:
        """Keep what has changed, and let go."""
        self._stops = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for entry in self._entries.values():
            entry.cancel()
        await self._log.stop()

    @property
    def log(self) -> SessionLog:
        """Where they are kept."""
        return self._log

    async def own(self, shard: int) -> None:
        """Have a shard of the copies, and look after its sessions; if that fails, the next client tries."""
        try:
            await self._own(shard)
        except Unstored as problem:
            log.warning("shard %d can't be taken over: %s", shard, problem)

    async def release(self, shard: int) -> None:
        """Another copy has a shard from now on."""
        if not self._log.owns(shard):
            return
        for client_id, entry in list(self._entries.items()):
            if self._log.shard_of(client_id) == shard:
                if entry.holder is not None:
                    entry.holder.end(Ended.STOPPING)
                if self._entries.get(client_id) is entry:
                    self._drop(client_id, entry)
        await self._log.release(shard)

    async def _find(self) -> None:
        while True:
            try:
                if await self._log.find(make=False):
                    for shard in range(self._log.shards):
                        await self._own(shard)
                break
            except Unstored as problem:
                log.warning("the sessions can't be read: %s", problem)
                await asyncio.sleep(FIND_AGAIN_SECONDS)
        self._cleaned = None

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            for entry in list(self._entries.values()):
                if entry.has_changed:
                    self._put(entry)

    async def _own(self, shard: int) -> None:
        """Have a shard, and know its sessions. Raises Unstored."""
        async with self._owning.setdefault(shard, asyncio.Lock()):
            if self._log.owns(shard):
                return
            for client_id, value in (await self._log.own(shard)).items():
                if self._cleaned is not None and client_id in self._cleaned:
                    self._log.put(client_id, None)
                    continue
                try:
                    self._found(client_id, decoded(value))
                except UnreadableState as problem:
                    log.warning("the session of %.200r is passed over: %s", client_id, problem)

    def _found(self, client_id: str, state: SessionState) -> None:
        now_ms = _now_ms()
        entry = _Entry(state.session(client_id), None, state.left_ms, state.will)
        self._entries[client_id] = entry
        self._figures.sessions[AWAY] += 1
        if entry.left_ms is None:
            self._away(entry, state.will)  # its connection has ended with the proxy that had it
        else:
            self._set_timers(entry, now_ms)

    def _lost(self, shard: int) -> None:
        for client_id, entry in list(self._entries.items()):
            if self._log.shard_of(client_id) == shard:
                self._drop(client_id, entry)
                if entry.holder is not None:
                    entry.holder.end(Ended.TAKEN_OVER)

    # -- a client's side ------------------------------------------------------------------------------------

    async def ready(self, connect: Connect, client_id: str) -> None:
        """Know what there is of a client's session, if it may have one. Raises Unstored."""
        if granted_seconds(connect, self._most_seconds) or not self._is_alone:
            await self._log.find(make=True)
            await self._own(self._log.shard_of(client_id))
        elif self._cleaned is not None and connect.client_id and len(self._cleaned) < MOST_CLEANED:
            self._cleaned.add(client_id)

    def needs_reading(self, client_id: str) -> bool:
        """Whether a session is there that goes on only where records are read."""
        entry = self._entries.get(client_id)
        return entry is not None and entry.session.subscriptions.are_acknowledged

    def attach(self, connect: Connect, client_id: str, holder: Holder) -> tuple[Session, bool]:
        """The session of a client that connects, and whether it was there. An older connection is ended.

        Raises Unstored, where `ready` has to be asked again.
        """
        seconds = granted_seconds(connect, self._most_seconds)
        if (seconds or not self._is_alone) and not self._log.owns(self._log.shard_of(client_id)):
            raise Unstored("another copy has taken the sessions over")
        entry = self._entries.get(client_id)
        if entry is not None and entry.holder is not None:
            entry.holder.end(Ended.TAKEN_OVER)
            entry = self._entries.get(client_id)
        if entry is not None and connect.clean_start:
            self._end(client_id, entry)
            entry = None
        is_present = entry is not None
        if entry is None:
            if not seconds:
                return Session(client_id), False
            entry = self._entries[client_id] = _Entry(Session(client_id))
        else:
            self._figures.sessions[AWAY] -= 1
        self._figures.sessions[CONNECTED] += 1
        entry.cancel()
        session = entry.session
        session.expiry_seconds = seconds
        session.resume()
        entry.holder, entry.left_ms, entry.will = holder, None, None
        if connect.will is not None:
            entry.will = KeptWill(connect.will, will_delay(connect.will, seconds))
        return session, is_present

    def has_changed(self, session: Session) -> None:
        """It has got further: keep that before long."""
        entry = self._of(session)
        if entry is not None:
            entry.has_changed = True

    def keeps(self, session: Session) -> bool:
        """Whether it is one that outlives its connection."""
        return self._of(session) is not None

    async def save(self, session: Session) -> None:
        """Keep what there is of a session, if it is one to keep. Raises Unstored."""
        entry = self._of(session)
        if entry is not None:
            entry.has_changed = False
            await self._log.save(session.client_id, self._state(entry))

    def left(self, session: Session, will: KeptWill | None) -> None:
        """The connection of a session is over. will: that is to be stored once it is due."""
        entry = self._of(session)
        if entry is None or entry.holder is None:
            return
        session.leave(entry.holder.positions())
        self._figures.sessions[CONNECTED] -= 1
        self._figures.sessions[AWAY] += 1
        if session.expiry_seconds:
            self._away(entry, will)
        else:
            entry.holder, entry.will = None, will
            self._end(session.client_id, entry)

    # -- time -----------------------------------------------------------------------------------------------

    def _away(self, entry: _Entry, will: KeptWill | None) -> None:
        now_ms = _now_ms()
        entry.holder, entry.left_ms = None, now_ms
        entry.will = None
        if will is not None:
            entry.will = KeptWill(will.will, will.delay_seconds, now_ms + 1_000 * will.delay_seconds)
        self._put(entry)
        self._set_timers(entry, now_ms)

    def _set_timers(self, entry: _Entry, now_ms: int) -> None:
        loop = asyncio.get_running_loop()
        session, will = entry.session, entry.will
        assert entry.left_ms is not None, "its client is away"
        if will is not None:
            due_ms = now_ms if will.due_ms is None else will.due_ms
            if due_ms <= now_ms:
                self._will_is_due(entry)
            else:
                seconds = (due_ms - now_ms) / 1_000
                entry.timers.append(loop.call_later(seconds, self._will_is_due, entry))
        if session.expiry_seconds != NEVER:
            seconds = session.expiry_seconds - (now_ms - entry.left_ms) / 1_000
            entry.timers.append(loop.call_later(max(seconds, 0.0), self._end, session.client_id, entry))

    def _will_is_due(self, entry: _Entry) -> None:
        will, client_id = entry.will, entry.session.client_id
        if will is None or self._stops:
            return

        def stored() -> None:
            if entry.will is will:
                entry.will = None
                if self._entries.get(client_id) is entry:
                    self._put(entry)

        self._store_will(client_id, will.will, stored)

    def _end(self, client_id: str, entry: _Entry) -> None:
        """End a session: its will is stored before its record goes."""
        if self._entries.get(client_id) is not entry or self._stops:
            return
        self._drop(client_id, entry)

        def forget() -> None:
            if client_id not in self._entries:
                self._log.put(client_id, None)

        if entry.will is None:
            forget()
        else:
            self._store_will(client_id, entry.will.will, forget)

    # -- parts ----------------------------------------------------------------------------------------------

    def _of(self, session: Session) -> _Entry | None:
        entry = self._entries.get(session.client_id)
        return entry if entry is not None and entry.session is session else None

    def _drop(self, client_id: str, entry: _Entry) -> None:
        entry.cancel()
        del self._entries[client_id]
        self._figures.sessions[AWAY if entry.holder is None else CONNECTED] -= 1

    def _put(self, entry: _Entry) -> None:
        entry.has_changed = False
        self._log.put(entry.session.client_id, self._state(entry))

    def _state(self, entry: _Entry) -> bytes:
        live = {} if entry.holder is None else entry.holder.positions()
        return encoded(SessionState.of(entry.session, live, entry.left_ms, entry.will))


def _now_ms() -> int:
    return int(time.time() * 1_000)
