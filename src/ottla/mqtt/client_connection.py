"""One client's connection: bytes to the machine's events, its effects to bytes, messages and timers.

Theory of operation. The machine (core/connection.py) decides; here is what it has no hands for. Nothing is
read of a client while its CONNECT is checked, while it takes no answers (the transport's buffer is above its
mark), while the writer to Kafka is full, or while it has as much under way as it may. What it has sent until
then waits in the framing, at most one packet and one read of the network. What is answered in one turn of the
loop goes out in one write. A turn handles PACKETS_A_TURN packets; the rest waits for the next.

What changes a session that outlives the connection is kept (sessions.py) before its client is told; that is
read no further meanwhile. For a session that is behind, pieces of the log are read one after the other, as
long as its client acknowledges.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from ottla.mqtt.admission import Admission, NotAdmitted
from ottla.mqtt.backlog_reading import BacklogReading, Piece
from ottla.mqtt.copies import Copies, new_client_id
from ottla.mqtt.core.connection import (
    NO_TICKET,
    Admitted,
    Begin,
    Broken,
    CheckClient,
    CheckFilters,
    Close,
    Connection,
    Deliver,
    Effect,
    Ended,
    Event,
    FallBehind,
    FoundRetained,
    Granted,
    HasTaken,
    KeepWill,
    Limits,
    Received,
    Refused,
    Rejected,
    Reread,
    Send,
    State,
    Store,
    Stored,
)
from ottla.mqtt.core.decoding import decode
from ottla.mqtt.core.encoding import encode
from ottla.mqtt.core.fields import Malformed
from ottla.mqtt.core.framing import Framing
from ottla.mqtt.core.messages import SYS, Message
from ottla.mqtt.core.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Publish,
    RetainHandling,
    Suback,
    Subscribe,
    Unsuback,
)
from ottla.mqtt.core.reason_codes import ReasonCode
from ottla.mqtt.core.session import Session
from ottla.mqtt.core.session_state import KeptWill
from ottla.mqtt.core.subscriptions import Arrived, Place
from ottla.mqtt.core.topics import SHARED
from ottla.mqtt.figures import MqttFigures
from ottla.mqtt.producing import MessageWriter
from ottla.mqtt.session_log import Unstored
from ottla.mqtt.sessions import Sessions
from ottla.mqtt.storing import MessageStore
from ottla.mqtt.subscribers import Subscribers
from ottla.mqtt.sys_publishing import SysPublishing
from ottla.web.access_rules import UNLIMITED, Grants

log = logging.getLogger("ottla.mqtt")

PACKETS_A_TURN: Final = 200
CLOSE_SECONDS: Final = 3.0
"""How long a client may take for its last answers."""
MOST_FILTERS: Final = 1_000
"""Of one client."""
MOST_OUT_BYTES: Final = 1 << 20
"""What one client may leave untaken; further messages of QoS 0 to it are dropped."""
MOST_PIECE: Final = 500
"""Messages that are read for one session at a time."""
RETAINED_A_TURN: Final = 100
LEFT: Final = "left"
LOST: Final = "lost"


class Link(Protocol):
    """The network under a connection: TCP, TLS or WebSocket."""

    @property
    def peer(self) -> str:
        """The client's address, for logs."""

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate (DER), which TLS has verified; None without one."""

    @property
    def unsent_bytes(self) -> int:
        """What was written and the network has not taken."""

    def write(self, data: bytes) -> None:
        """Send, once there is room."""

    def read_on(self, wanted: bool) -> None:
        """Whether to read what comes."""

    def close(self) -> None:
        """Close when all is sent."""

    def abort(self) -> None:
        """Close at once."""


class Through(Protocol):
    """The way of a client's bytes to the copy that has it."""

    def begin(self, first: bytes) -> None:
        """Pass these bytes on, and read what follows."""

    def send(self, data: bytes) -> None:
        """Pass on what the client has sent."""

    def takes_answers(self, takes: bool) -> None:
        """Whether the client takes what comes."""

    def close(self) -> None:
        """End it, and the client's connection with it."""


class Others(Protocol):
    """The way to the other copies."""

    async def splice(self, address: str, link: Link) -> Through:
        """The way to the copy at an address. Raises OSError, TimeoutError."""


class Clients:
    """The clients that are connected, by their identifiers; the connections before that too."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: set[ClientConnection] = set()
        self._by_id: dict[str, ClientConnection] = {}
        self._left = asyncio.Event()

    @property
    def has_room(self) -> bool:
        """Whether a further connection is taken."""
        return len(self._all) < self._most

    def add(self, connection: ClientConnection) -> None:
        """A connection of the network is there."""
        self._all.add(connection)

    def enter(self, client_id: str, connection: ClientConnection) -> None:
        """A client is connected; an earlier connection of the same one ends."""
        former = self._by_id.get(client_id)
        self._by_id[client_id] = connection
        if former is not None:
            former.end(Ended.TAKEN_OVER)

    def leave(self, client_id: str, connection: ClientConnection) -> None:
        """A connection is over."""
        self._all.discard(connection)
        self._left.set()
        if self._by_id.get(client_id) is connection:
            del self._by_id[client_id]

    def end_those(self, ends: Callable[[str], bool]) -> None:
        """End the connections of some clients, by their identifiers, as the proxy stops for them."""
        for client_id, each in list(self._by_id.items()):
            if ends(client_id):
                each.end(Ended.STOPPING)

    def read_no_further(self) -> None:
        """Take no more packets of any client, as the proxy is about to stop."""
        for each in list(self._all):
            each.read_no_further()

    def end(self) -> None:
        """End all connections, as the proxy stops."""
        for each in list(self._all):
            each.end(Ended.STOPPING)

    async def gone(self) -> None:
        """Return once no connection is left."""
        while self._all:
            self._left.clear()
            await self._left.wait()


@dataclass(frozen=True, slots=True)
class Parts:
    """What all connections of a service share."""

    limits: Limits
    connect_seconds: float
    admission: Admission
    writer: MessageWriter
    clients: Clients
    subscribers: Subscribers
    store: MessageStore
    sys: SysPublishing | None
    sessions: Sessions
    backlog: BacklogReading
    figures: MqttFigures
    copies: Copies | None = None
    others: Others | None = None
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run something until its end, or the service's."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


_NOTHING: Final = 0
_CHECK: Final = 1
_ANSWERS: Final = 2
_WRITER: Final = 4
_OWN: Final = 8
_TURN: Final = 16
_STOPPING: Final = 32
_KEPT: Final = 64
"""Why a client is not read at present, as bits: an enum.Flag took a tenth of a message's time."""


class ClientConnection:
    """One connection, from the network's begin to its end."""

    def __init__(self, parts: Parts, link: Link, *, is_passed_on: bool = False) -> None:
        """is_passed_on: by another copy, which has found that this one has the client."""
        self._parts = parts
        self._is_passed_on = is_passed_on
        self._through: Through | None = None
        self._link = link
        self._machine = Connection(parts.limits)
        self._framing = Framing(parts.limits.packet_bytes)
        self._grants: Grants = UNLIMITED
        self._waits = _NOTHING
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._filters: set[str] = set()
        self._takes_more = asyncio.Event()
        self._flushes_soon = False
        self._pumps = False
        self._is_gone = False
        self._session: Session | None = None
        self._will: KeptWill | None = None
        self._catches_up = False
        self._counted_version = ""
        self._loop = asyncio.get_running_loop()
        self._last_packet = self._loop.time()
        self._silence_seconds = 0.0
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(parts.connect_seconds, self._too_slow)
        parts.clients.add(self)
        parts.figures.connections += 1

    # -- from the network -----------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Take what came; nothing behind the connection's end."""
        if self._through is not None:
            self._through.send(data)
            return
        if self._machine.state is State.CLOSED:
            return
        self._parts.figures.bytes_received += len(data)
        self._framing.feed(data)
        if not self._waits:
            self._pump()

    def takes_answers(self, takes: bool) -> None:
        """Whether the network takes what is written."""
        if self._through is not None:
            self._through.takes_answers(takes)
        else:
            self._wait(_ANSWERS, not takes)
            self._takes_more.set()

    def lost(self) -> None:
        """The network's connection is over."""
        if self._is_gone:
            return
        self._is_gone = True
        self._takes_more.set()
        if self._through is not None:
            self._through.close()
        self._step(Ended.LOST)
        if self._timer is not None:
            self._timer.cancel()
        self._parts.subscribers.discard(self, self._filters)
        figures = self._parts.figures
        figures.connections -= 1
        if self._counted_version:
            figures.clients[self._counted_version] -= 1
        self._parts.clients.leave(self._machine.client_id, self)

    def read_no_further(self) -> None:
        """Take no more packets."""
        if self._through is None:
            self._wait(_STOPPING, True)

    def end(self, reason: Ended) -> None:
        """End the connection from this side."""
        if self._through is not None:
            self._through.close()
        else:
            self._step(reason)

    # -- reading --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Handle the packets that are there, until something must be waited for."""
        if self._pumps:
            return
        self._pumps = True
        machine, framing, figures = self._machine, self._framing, self._parts.figures
        try:
            for _ in range(PACKETS_A_TURN):
                if self._waits or machine.state is State.CLOSED:
                    return
                try:
                    frame = framing.next()
                    if frame is None:
                        return
                    packet = decode(*frame, machine.version)
                except Malformed as problem:
                    self._step(Broken(problem))
                    return
                self._last_packet = self._loop.time()
                figures.packets_received += 1
                self._step(Received(packet))
                if machine.is_full:
                    self._wait(_OWN, True)
                if self._parts.writer.is_full:
                    self._wait_for_writer()
            self._wait(_TURN, True)
            self._loop.call_soon(self._wait, _TURN, False)
        finally:
            self._pumps = False

    def _wait(self, reason: int, waits: bool) -> None:
        before = self._waits
        self._waits = before | reason if waits else before & ~reason
        if bool(before) != bool(self._waits) and not self._is_gone:
            self._link.read_on(not self._waits)
        if before and not self._waits:
            self._pump()

    def _wait_for_writer(self) -> None:
        self._parts.figures.pauses += 1
        self._wait(_WRITER, True)
        self._parts.writer.tell_room(partial(self._wait, _WRITER, False))

    # -- the machine ----------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        for effect in self._machine.step(event):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(packet):
                if isinstance(packet, Connack):
                    self._parts.figures.connects[packet.reason.name] += 1
                elif isinstance(packet, Disconnect):
                    self._parts.figures.disconnects[packet.reason.name] += 1
                elif isinstance(packet, Unsuback):
                    self._forget_filters()
                kept = isinstance(packet, (Suback, Unsuback)) and self._session is not None
                if kept and self._parts.sessions.keeps(self._machine.session):
                    self._wait(_KEPT, True)
                    self._parts.start("keeping a session", self._send_kept(packet))
                else:
                    self._send(encode(packet, self._machine.version))
            case Store(ticket, message):
                self._store(ticket, message)
            case Deliver(packet):
                self._deliver(packet)
            case CheckFilters(packet):
                self._wait(_CHECK, True)
                self._parts.start("checking filters", self._subscribe(packet))
            case CheckClient(connect):
                self._wait(_CHECK, True)
                self._parts.start("checking a client", self._check(connect))
            case FallBehind(at):
                self._machine.session.fall_behind({**self.positions(), at[0]: at[1]})
            case HasTaken():
                self._parts.sessions.has_changed(self._machine.session)
                if self._machine.session.is_half_empty:
                    self._catch_up()
            case KeepWill(will, delay_seconds):
                self._will = KeptWill(will, delay_seconds)
            case Begin(client_id, silence_seconds):
                self._begin(client_id, silence_seconds)
            case Close(problem):
                self._close(problem)

    async def _check(self, connect: Connect) -> None:
        event: Event
        parts = self._parts
        assigned_id = new_client_id() if parts.copies is None else parts.copies.new_client_id()
        client_id = connect.client_id or assigned_id
        try:
            if parts.copies is not None and await self._is_another_copys(parts.copies, client_id, connect):
                return
            self._grants = await parts.admission.admit(connect, self._link.certificate, self._link.peer)
            await parts.sessions.ready(connect, client_id)
            if parts.sessions.needs_reading(client_id) and not await parts.subscribers.ready():
                raise Unstored("the cluster does not answer")
            if self._machine.state is State.CLOSED:
                return
            session, is_present = parts.sessions.attach(connect, client_id, self)
            self._session = session
            await parts.sessions.save(session)
            event = Admitted(assigned_id, session, is_present)
        except NotAdmitted as problem:
            event = Rejected(problem.reason, problem.text)
        except Unstored as unstored:
            log.warning("a client has no session: client=%s: %s", self._link.peer, unstored)
            event = Rejected(ReasonCode.SERVER_UNAVAILABLE, f"its session can't be kept: {unstored}")
        self._step(event)
        if isinstance(event, Admitted) and self._machine.state is State.OPEN:
            self._filters = set(event.session.filters) if event.session is not None else set()
            parts.subscribers.add(self, self._filters)
            self._catch_up()
        self._wait(_CHECK, False)

    async def _is_another_copys(self, copies: Copies, client_id: str, connect: Connect) -> bool:
        """Whether another copy has the client; then it is passed on. Raises Unstored if none is reached."""
        address = await copies.address_of(client_id)
        if address == copies.address:
            return False
        others = self._parts.others
        if address is None or others is None or self._is_passed_on:
            raise Unstored("the copies of the proxy have not agreed who has it")
        try:
            through = await others.splice(address, self._link)
        except (OSError, TimeoutError) as problem:
            raise Unstored(f"the copy at {address} is not reached: {problem!r}") from None
        if self._is_gone or self._machine.state is State.CLOSED:
            through.close()
            return True
        self._through = through
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        through.begin(encode(connect, connect.version) + self._framing.rest())
        return True

    async def _send_kept(self, packet: Packet) -> None:
        """Tell a client what has become of its session, once that is kept."""
        try:
            await self._parts.sessions.save(self._machine.session)
        except Unstored:
            return  # with the shard that is lost, its connections have ended
        if self._machine.state is State.OPEN:
            self._send(encode(packet, self._machine.version))
        self._wait(_KEPT, False)

    def _begin(self, client_id: str, silence_seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._counted_version = "3.1.1" if self._machine.version == 4 else "5"
        self._parts.figures.clients[self._counted_version] += 1
        self._parts.clients.enter(client_id, self)
        self._silence_seconds = silence_seconds
        if silence_seconds:
            self._timer = self._loop.call_later(silence_seconds, self._look_for_silence)

    def _look_for_silence(self) -> None:
        now = self._loop.time()
        if self._waits:
            self._last_packet = now  # it may have spoken: it was not listened to
        left = self._last_packet + self._silence_seconds - now
        if left > 0:
            self._timer = self._loop.call_later(left, self._look_for_silence)
        else:
            self._step(Ended.SILENT)

    def _too_slow(self) -> None:
        log.debug("%s sent no CONNECT in time", self._link.peer)
        self._step(Ended.LOST)

    # -- messages -------------------------------------------------------------------------------------------

    def _store(self, ticket: int, message: Message) -> None:
        parts = self._parts
        report = partial(self._stored, ticket, message.qos)
        refusal = parts.admission.refusal(message.topic, self._grants)
        if refusal is not None:
            word = "no route" if refusal is ReasonCode.TOPIC_NAME_INVALID else "no right"
            log.warning("a message is refused: client=%s: %s to %.200s", self._link.peer, word, message.topic)
            report(refusal, f"there is {word} to publish there")
            return
        if self._machine.state is State.CLOSED:
            parts.figures.wills += 1
        kafka_topic = parts.admission.routing.kafka_topic(message.topic)
        assert kafka_topic is not None, "a message without a route is refused"
        parts.store.store(kafka_topic, message, self._machine.client_id, report)

    def _stored(self, ticket: int, qos: int, reason: ReasonCode, text: str) -> None:
        outcome = reason.name if reason.is_failure else "stored"
        self._parts.figures.messages[qos, outcome] += 1
        if ticket == NO_TICKET:
            if reason.is_failure:
                log.debug("a message of QoS 0, or a will, is not stored: %s", text)
            return
        self._step(Refused(ticket, reason, text) if reason.is_failure else Stored(ticket))
        if self._waits & _OWN and not self._machine.is_full:
            self._wait(_OWN, False)

    # -- subscriptions --------------------------------------------------------------------------------------

    async def _subscribe(self, packet: Subscribe) -> None:
        """Grant what may be granted, once what comes from now on is read."""
        reasons: list[ReasonCode] = []
        granted: set[str] = set()
        for request in packet.requests:
            refusal = self._parts.admission.subscription_refusal(request.filter, self._grants)
            if refusal is None and len(self._filters | granted | {request.filter}) > MOST_FILTERS:
                refusal = ReasonCode.QUOTA_EXCEEDED
            if refusal is None:
                granted.add(request.filter)
            reasons.append(ReasonCode.SUCCESS if refusal is None else refusal)
        if granted and not await self._reads_on():
            granted.clear()
            reasons = [each if each.is_failure else ReasonCode.UNSPECIFIED_ERROR for each in reasons]
        if not self._is_gone and self._machine.state is State.OPEN:
            self._filters |= granted
            self._parts.subscribers.add(self, granted)
            begins = self.positions() if self._machine.session.is_behind else None
            retained = self._retained_for(packet, granted)
            self._step(Granted(packet, tuple(reasons), begins))
            await self._send_retained(retained)
        self._wait(_CHECK, False)

    async def _reads_on(self) -> bool:
        """Whether what comes from now on is read, and all that is retained now has been."""
        parts = self._parts
        retained = parts.store.retained
        if not await parts.subscribers.ready():
            return False
        return retained is None or await retained.read_to_end()

    def _retained_for(self, packet: Subscribe, granted: set[str]) -> list[tuple[str, str]]:
        """The topics whose retained messages a SUBSCRIBE asks for, each behind the filter that it matches."""
        parts = self._parts
        sources = [each for each in (parts.store.retained, parts.sys) if each is not None]
        known = self._machine.session.subscriptions
        found: list[tuple[str, str]] = []
        for request in packet.requests:
            filter_, handling = request.filter, request.retain_handling
            if (
                filter_ in granted
                and not filter_.startswith(SHARED)
                and handling is not RetainHandling.DO_NOT_SEND
                and not (handling is RetainHandling.SEND_IF_NEW and filter_ in known)
            ):
                found.extend((filter_, topic) for each in sources for topic in each.topics(filter_))
        return found

    async def _send_retained(self, wanted: Sequence[tuple[str, str]]) -> None:
        """Send retained messages as the client takes them, each as it is then."""
        for place, (filter_, topic) in enumerate(wanted, 1):
            source = self._parts.sys if topic.startswith(SYS) else self._parts.store.retained
            kept = None if source is None else source.get(topic)
            if kept is not None:
                age_seconds = max(0.0, time.time() - kept.stored_s)
                self._step(FoundRetained(filter_, Arrived(kept.message, kept.publisher, age_seconds)))
            if place % RETAINED_A_TURN == 0 or self._out_bytes >= MOST_OUT_BYTES // 2:
                await asyncio.sleep(0)  # which writes
                while self._waits & _ANSWERS and not self._is_gone:
                    self._takes_more.clear()
                    await self._takes_more.wait()
            if self._is_gone:
                return

    def _forget_filters(self) -> None:
        """Take out what an UNSUBSCRIBE has ended."""
        ended = self._filters.difference(self._machine.session.subscriptions.filters)
        self._parts.subscribers.discard(self, ended)
        self._filters -= ended

    def arrived(self, arrived: Arrived) -> None:
        """See `Subscriber`."""
        self._step(arrived)

    def positions(self) -> dict[Place, int]:
        """See `Holder`."""
        return self._parts.subscribers.positions_of(self)

    def _catch_up(self) -> None:
        """Read for the session, if it is behind."""
        if self._machine.session.is_behind and not self._catches_up:
            self._catches_up = True
            self._parts.start("catching up", self._read_on())

    async def _read_on(self) -> None:
        """Read pieces until the session is as far as the service's reading, or takes no more."""
        session = self._machine.session
        try:
            while self._machine.state is State.OPEN and session.reading is not None:
                ends = self.positions()
                if session.catch_up(ends) or not session.wanted:
                    return
                levels = [each.levels for each in session.subscriptions.all]
                piece = await self._parts.backlog.piece(
                    session.reading, ends, levels, min(session.wanted, MOST_PIECE)
                )
                if self._machine.state is State.OPEN:
                    self._take(piece)
        finally:
            self._catches_up = False

    def _take(self, piece: Piece) -> None:
        """Send what the session has room for; the rest is read again."""
        session = self._machine.session
        full: set[Place] = set()
        for arrived in piece.messages:
            assert arrived.at is not None, "it was read somewhere"
            place = arrived.at[0]
            if place not in full and session.takes(arrived.at):
                self._step(Reread(arrived))
            else:
                full.add(place)
        session.pass_to({place: offset for place, offset in piece.reached.items() if place not in full})

    def _deliver(self, packet: Publish) -> None:
        figures = self._parts.figures
        if not packet.qos and self._out_bytes + self._link.unsent_bytes >= MOST_OUT_BYTES:
            figures.deliveries["dropped"] += 1
            return
        figures.deliveries["sent"] += 1
        self._send(encode(packet, self._machine.version))

    # -- writing --------------------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        figures = self._parts.figures
        figures.packets_sent += 1
        figures.bytes_sent += len(data)
        self._out.append(data)
        self._out_bytes += len(data)
        if not self._flushes_soon:
            self._flushes_soon = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushes_soon = False
        self._out_bytes = 0
        if self._out and not self._is_gone:
            self._link.write(b"".join(self._out))
        self._out.clear()

    def _close(self, problem: str | None) -> None:
        told = any(each[0] == 0xE0 for each in self._out)
        if not told and self._counted_version:
            self._parts.figures.disconnects[LEFT if problem is None else LOST] += 1
        if problem is not None and not self._is_gone:
            log.info("a connection ends: client=%s: %s", self._link.peer, problem)
        if self._session is not None:
            self._parts.sessions.left(self._session, self._will)
        self._flush()
        if self._is_gone:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._link.close()
        self._timer = self._loop.call_later(CLOSE_SECONDS, self._link.abort)
