"""One client's connection as a machine: events in, effects out.

Theory of operation. The first packet is CONNECT, and its client is checked outside (`CheckClient`); until the
answer no further packet may be given in. Then packets are answered as they come. A message goes out as a
`Store`, which names a ticket; its answer, `Stored` or `Refused`, may come at any time, and a message of QoS 1
is acknowledged with it and not before. What the client may have under way is bounded by Receive Maximum.
One of 3.1.1, which knows no such bound, is read no further while it has so many (`is_full`). So is one of 5
that has twice as many, in place of a DISCONNECT: paho sends all that it has when it connects again, and would
never get on. Between the two its other packets are answered.

The session (session.py) is given with `Admitted`, as it may be older than the connection and outlive it. A
message of QoS 1 to the client takes room in it; where there is none the session falls behind, and gets what
follows from the log (`Reread`), as its client acknowledges.

The will is stored when the connection ends, but after a DISCONNECT that lets go of it, and when the proxy
itself stops, since the client finds another one then. One with a delay waits in the session, if that is left.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from ottla.mqtt.core.encoding import encode
from ottla.mqtt.core.fields import Malformed
from ottla.mqtt.core.messages import Message
from ottla.mqtt.core.packets import (
    PINGRESP,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Version,
    Will,
)
from ottla.mqtt.core.properties import NO_PROPERTIES, Properties, Property
from ottla.mqtt.core.reason_codes import ReasonCode, return_code
from ottla.mqtt.core.session import LARGEST_PACKET_ID, Session, granted_seconds, will_delay
from ottla.mqtt.core.subscriptions import MOST_QOS, Arrived, At, Place

NO_TICKET: Final = 0
"""Of a message that nobody waits for."""
_NO_LIMIT: Final = 268_435_460
"""Bytes of the largest packet that there can be."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may do. keep_alive_seconds: the longest that it may be silent, 0 for any time.

    retains: whether messages are retained.
    session_seconds: the longest that its session may outlive its connection.
    """

    packet_bytes: int = 1 << 20
    receive_maximum: int = 100
    topic_aliases: int = 32
    keep_alive_seconds: int = 0
    retains: bool = True
    session_seconds: int = 0


_Answer = TypeVar("_Answer", Connack, Disconnect, Puback, Suback, Unsuback)


# -- events ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Received:
    """A packet came."""

    packet: Packet


@dataclass(frozen=True, slots=True)
class Broken:
    """What came is no packet."""

    problem: Malformed


@dataclass(frozen=True, slots=True)
class Admitted:
    """The client may connect. assigned_id: for one that has given none. session: None for a new one.

    present: whether the session was there before.
    """

    assigned_id: str
    session: Session | None = None
    present: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """The client may not connect."""

    reason: ReasonCode
    text: str


@dataclass(frozen=True, slots=True)
class Stored:
    """The message of a ticket is stored."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The message of a ticket is not stored. SERVER_BUSY: another attempt may succeed."""

    ticket: int
    reason: ReasonCode
    text: str


@dataclass(frozen=True, slots=True)
class Granted:
    """The answers to the requests of a SUBSCRIBE. begins: see `Subscription`."""

    packet: Subscribe
    reasons: tuple[ReasonCode, ...]
    begins: Mapping[Place, int] | None = None


@dataclass(frozen=True, slots=True)
class Reread:
    """A message that is read for the session alone, which is behind and takes it."""

    arrived: Arrived


@dataclass(frozen=True, slots=True)
class FoundRetained:
    """A retained message that a filter matches, to which the client has just subscribed."""

    filter: str
    arrived: Arrived


class Ended(enum.Enum):
    """What ends a connection, beside the client's own packets."""

    LOST = enum.auto()
    """The network."""
    SILENT = enum.auto()
    """The client was silent for too long."""
    TAKEN_OVER = enum.auto()
    """Another connection has the same client id."""
    STOPPING = enum.auto()
    """The proxy stops."""


Event = (
    Received
    | Broken
    | Admitted
    | Rejected
    | Stored
    | Refused
    | Granted
    | Arrived
    | Reread
    | FoundRetained
    | Ended
)


# -- effects ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send a packet to the client."""

    packet: Packet


@dataclass(frozen=True, slots=True)
class CheckClient:
    """Find out whether the client may connect, and leave this will."""

    connect: Connect


@dataclass(frozen=True, slots=True)
class Begin:
    """The client is connected. silence_seconds: the longest between two of its packets; 0 for any."""

    client_id: str
    silence_seconds: float


@dataclass(frozen=True, slots=True)
class Store:
    """Store a message; answer with the ticket, unless that is NO_TICKET."""

    ticket: int
    message: Message


@dataclass(frozen=True, slots=True)
class CheckFilters:
    """Find out which requests of a SUBSCRIBE are granted."""

    packet: Subscribe


@dataclass(frozen=True, slots=True)
class Deliver:
    """Send a message; one of QoS 0 only if the client does not take too long for those before it."""

    packet: Publish


@dataclass(frozen=True, slots=True)
class FallBehind:
    """The session takes no more of what arrives, from this record on: read it for the session alone."""

    at: At


@dataclass(frozen=True, slots=True)
class HasTaken:
    """The client has acknowledged a message."""


@dataclass(frozen=True, slots=True)
class KeepWill:
    """Store this will once its client has been away for so long, at once for 0, or its session ends."""

    will: Will
    delay_seconds: int


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection once all is sent. problem: why, None for a client that has left."""

    problem: str | None = None


Effect = (
    Send | CheckClient | Begin | Store | CheckFilters | Deliver | FallBehind | HasTaken | KeepWill | Close
)


class State(enum.Enum):
    """Of a connection."""

    NEW = enum.auto()
    CHECKING = enum.auto()
    OPEN = enum.auto()
    CLOSED = enum.auto()


class Connection:
    """The machine of one connection. version: 3.1.1 until CONNECT says another one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.state = State.NEW
        self.version = Version.V3_1_1
        self.client_id = ""
        self._connect: Connect | None = None
        self._aliases: dict[int, str] = {}
        self._under_way: set[int] = set()
        self.session = Session()
        self._most_bytes_out = _NO_LIMIT
        self._tells_problems = True

    @property
    def is_full(self) -> bool:
        """Whether no further packet should be read until a message is stored or refused."""
        most = self._limits.receive_maximum
        return len(self._under_way) >= (most if self.version is Version.V3_1_1 else 2 * most)

    @property
    def under_way(self) -> int:
        """Messages of QoS 1 that are not answered yet."""
        return len(self._under_way)

    def step(self, event: Event) -> list[Effect]:
        """What an event leads to."""
        if self.state is State.CLOSED:
            return []
        match event:
            case Received(packet):
                return self._received(packet)
            case Stored(ticket):
                return self._answered(ticket, ReasonCode.SUCCESS, "")
            case Refused(ticket, reason, text):
                return self._answered(ticket, reason, text)
            case Arrived():
                return self._arrived(event)
            case Reread(arrived):
                return self._reread(arrived)
            case FoundRetained(filter_, arrived):
                return self._found_retained(filter_, arrived)
            case Granted():
                return self._granted(event)
            case Broken(problem):
                return self._end(problem.reason, problem.text)
            case Admitted():
                return self._admitted(event)
            case Rejected(reason, text):
                return self._end(reason, text)
            case Ended.LOST:
                return self._close("the connection is lost", [])
            case Ended.SILENT:
                return self._end(ReasonCode.KEEP_ALIVE_TIMEOUT, "the client was silent for too long")
            case Ended.TAKEN_OVER:
                return self._end(ReasonCode.SESSION_TAKEN_OVER, "another client has the same identifier")
            case Ended.STOPPING:
                self._forget_will()
                return self._end(ReasonCode.SERVER_SHUTTING_DOWN, "the proxy stops")

    # -- packets ------------------------------------------------------------------------------------------

    def _received(self, packet: Packet) -> list[Effect]:
        if self.state is State.NEW:
            if isinstance(packet, Connect):
                return self._connecting(packet)
            return self._end(ReasonCode.PROTOCOL_ERROR, "the first packet is not CONNECT")
        assert self.state is State.OPEN, "no packet is given in while the client is checked"
        match packet:
            case Publish():
                return self._publish(packet)
            case Puback(packet_id):
                # one of another connection may come late; nothing waits for it
                return [HasTaken()] if self.session.acknowledged(packet_id) else []
            case Pingreq():
                return [Send(PINGRESP)]
            case Disconnect(reason, properties):
                return self._left(reason, properties)
            case Subscribe():
                return [CheckFilters(packet)]
            case Unsubscribe():
                return self._unsubscribe(packet)
            case Auth():
                return self._end(ReasonCode.PROTOCOL_ERROR, "the connection has no authentication method")
            case Connect():
                return self._end(ReasonCode.PROTOCOL_ERROR, "a second CONNECT")
            case _:
                name = type(packet).__name__.upper()
                return self._end(ReasonCode.PROTOCOL_ERROR, f"{name} answers nothing that was sent")

    def _connecting(self, connect: Connect) -> list[Effect]:
        self._connect, self.version = connect, connect.version
        properties = connect.properties
        self._most_bytes_out = properties.get(Property.MAXIMUM_PACKET_SIZE, _NO_LIMIT)
        self._tells_problems = bool(properties.get(Property.REQUEST_PROBLEM_INFORMATION, 1))
        if not connect.client_id and not connect.clean_start and self.version is Version.V3_1_1:
            text = "a client without an identifier has no session to go on with"
            return self._end(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, text)
        if Property.AUTHENTICATION_METHOD in properties:
            text = "clients authenticate by CONNECT alone, or by their certificates"
            return self._end(ReasonCode.BAD_AUTHENTICATION_METHOD, text)
        will = connect.will
        if will is not None and self.version is Version.V5:
            if will.qos > 1:
                return self._end(ReasonCode.QOS_NOT_SUPPORTED, "wills of QoS 2 are not taken")
            if will.retain and not self._limits.retains:
                return self._end(ReasonCode.RETAIN_NOT_SUPPORTED, "messages are not retained")
        self.state = State.CHECKING
        return [CheckClient(connect)]

    def _admitted(self, event: Admitted) -> list[Effect]:
        connect = self._connect
        assert connect is not None and self.state is State.CHECKING
        self.state = State.OPEN
        self.client_id = connect.client_id or event.assigned_id
        seconds = granted_seconds(connect, self._limits.session_seconds)
        self.session = event.session or Session(self.client_id, seconds)
        self.session.most_sent = connect.properties.get(Property.RECEIVE_MAXIMUM, LARGEST_PACKET_ID)
        silence = connect.keep_alive_seconds
        longest = self._limits.keep_alive_seconds
        shortened = bool(longest) and (silence > longest or not silence)
        if shortened and self.version is Version.V5:
            silence = longest
        answer = Connack(ReasonCode.SUCCESS, event.present, self._own_properties(connect, silence))
        return [Begin(self.client_id, 1.5 * silence), *self._answer(answer)]

    def _own_properties(self, connect: Connect, silence: int) -> Properties:
        if self.version is not Version.V5:
            return NO_PROPERTIES
        limits = self._limits
        found: dict[Property, Any] = {
            Property.RECEIVE_MAXIMUM: limits.receive_maximum,
            Property.MAXIMUM_QOS: 1,
            Property.RETAIN_AVAILABLE: int(limits.retains),
            Property.MAXIMUM_PACKET_SIZE: limits.packet_bytes,
            Property.TOPIC_ALIAS_MAXIMUM: limits.topic_aliases,
            Property.SHARED_SUBSCRIPTION_AVAILABLE: 0,
        }
        if connect.properties.get(Property.SESSION_EXPIRY_INTERVAL, 0) != self.session.expiry_seconds:
            found[Property.SESSION_EXPIRY_INTERVAL] = self.session.expiry_seconds
        if not connect.client_id:
            found[Property.ASSIGNED_CLIENT_IDENTIFIER] = self.client_id
        if silence != connect.keep_alive_seconds:
            found[Property.SERVER_KEEP_ALIVE] = silence
        return found

    def _publish(self, packet: Publish) -> list[Effect]:
        properties = packet.properties
        if properties and self.version is Version.V5:
            if Property.SUBSCRIPTION_IDENTIFIER in properties:
                return self._end(
                    ReasonCode.PROTOCOL_ERROR, "a client's PUBLISH has a subscription identifier"
                )
            if Property.TOPIC_ALIAS in properties:
                alias = properties[Property.TOPIC_ALIAS]
                if not 0 < alias <= self._limits.topic_aliases:
                    return self._end(ReasonCode.TOPIC_ALIAS_INVALID, f"{alias} is no topic alias here")
                if packet.topic:
                    self._aliases[alias] = packet.topic
                elif alias not in self._aliases:
                    return self._end(ReasonCode.PROTOCOL_ERROR, f"the topic alias {alias} stands for nothing")
                packet = replace(packet, topic=self._aliases[alias])
        if packet.retain and self.version is Version.V5 and not self._limits.retains:
            return self._end(ReasonCode.RETAIN_NOT_SUPPORTED, "messages are not retained")
        packet_id = packet.packet_id
        if packet_id is None:
            return [Store(NO_TICKET, Message.of(packet))]
        if packet.qos > 1:
            return self._end(ReasonCode.QOS_NOT_SUPPORTED, "messages of QoS 2 are not taken")
        if packet_id in self._under_way:
            if self.version is Version.V3_1_1:
                return []  # sent again while it is under way, which 3.1.1 allows: one answer serves both
            return self._end(ReasonCode.PROTOCOL_ERROR, f"the packet identifier {packet_id} is in use")
        self._under_way.add(packet_id)
        return [Store(packet_id, Message.of(packet))]

    def _answered(self, ticket: int, reason: ReasonCode, text: str) -> list[Effect]:
        if ticket == NO_TICKET or ticket not in self._under_way:
            return []
        self._under_way.discard(ticket)
        if not reason.is_failure:
            return [Send(Puback(ticket))]
        if self.version is Version.V3_1_1 or reason is ReasonCode.SERVER_BUSY:
            # PUBACK can't refuse in 3.1.1, nor say in 5 that another attempt may succeed: without one the
            # client keeps the message.
            return self._end(reason, text)
        return self._answer(Puback(ticket, reason, self._told(text)))

    # -- subscriptions ------------------------------------------------------------------------------------

    def _granted(self, event: Granted) -> list[Effect]:
        packet = event.packet
        identifier = next(iter(packet.properties.get(Property.SUBSCRIPTION_IDENTIFIER, ())), None)
        reasons: list[ReasonCode] = []
        for request, reason in zip(packet.requests, event.reasons, strict=True):
            if not reason.is_failure:
                self.session.subscriptions.add(request, identifier, event.begins)
                reason = ReasonCode(min(request.qos, MOST_QOS))
            reasons.append(reason)
        return self._answer(Suback(packet.packet_id, tuple(reasons)))

    def _unsubscribe(self, packet: Unsubscribe) -> list[Effect]:
        reasons: list[ReasonCode] = []
        subscriptions = self.session.subscriptions
        for filter_ in packet.filters:
            known = filter_ in subscriptions
            reasons.append(ReasonCode.SUCCESS if known else ReasonCode.NO_SUBSCRIPTION_EXISTED)
            subscriptions.discard(filter_)
        return self._answer(Unsuback(packet.packet_id, tuple(reasons)))

    def _packet(self, arrived: Arrived) -> Publish | None:
        """In which the client gets a message; None if it does not."""
        return self._unless_too_large(
            self.session.subscriptions.packet(arrived, self.client_id, self.version)
        )

    def _found_retained(self, filter_: str, arrived: Arrived) -> list[Effect]:
        if self.state is not State.OPEN:
            return []
        subscriptions = self.session.subscriptions
        packet = self._unless_too_large(
            subscriptions.retained_packet(filter_, arrived, self.client_id, self.version)
        )
        return [] if packet is None else [Deliver(packet)]

    def _unless_too_large(self, packet: Publish | None) -> Publish | None:
        """A packet that is not larger than the client takes."""
        if packet is None or self._most_bytes_out == _NO_LIMIT:
            return packet
        numbered = replace(packet, packet_id=1) if packet.qos else packet
        return packet if len(encode(numbered, self.version)) <= self._most_bytes_out else None

    def _arrived(self, arrived: Arrived) -> list[Effect]:
        if self.state is not State.OPEN:
            return []
        packet = self._packet(arrived)
        if packet is None:
            return []
        if not packet.qos:
            return [Deliver(packet)]
        session = self.session
        if session.is_behind:
            return []
        assert arrived.at is not None, "a message of QoS 1 is at some place"
        if not session.has_room:
            return [FallBehind(arrived.at)]
        return [Deliver(session.send(packet, arrived.at))]

    def _reread(self, arrived: Arrived) -> list[Effect]:
        """Send what is due; what would be of QoS 0 was sent as it came, or missed."""
        assert arrived.at is not None, "it was read somewhere"
        if self.state is not State.OPEN or not self.session.is_due(arrived.at):
            return []
        packet = self._packet(arrived)
        if packet is None or not packet.qos:
            return []
        return [Deliver(self.session.send(packet, arrived.at))]

    # -- the end ------------------------------------------------------------------------------------------

    def _left(self, reason: ReasonCode, properties: Properties) -> list[Effect]:
        connect = self._connect
        assert connect is not None
        asked = properties.get(Property.SESSION_EXPIRY_INTERVAL, 0)
        if asked and not connect.properties.get(Property.SESSION_EXPIRY_INTERVAL, 0):
            text = "DISCONNECT begins a session that CONNECT did not"
            return self._end(ReasonCode.PROTOCOL_ERROR, text)
        if Property.SESSION_EXPIRY_INTERVAL in properties:
            self.session.expiry_seconds = min(asked, self._limits.session_seconds)
        if reason is ReasonCode.SUCCESS:
            self._forget_will()
        return self._close(None, [])

    def _end(self, reason: ReasonCode, text: str) -> list[Effect]:
        """End the connection from this side, with the packet that says why where the version has one."""
        said: Packet | None = None
        if self.state is State.OPEN:
            if self.version is Version.V5:
                said = self._fitting(Disconnect(reason, self._told(text)))
        else:
            if reason is ReasonCode.SERVER_SHUTTING_DOWN:
                reason = ReasonCode.SERVER_UNAVAILABLE  # in CONNACK's words
            if self._connect is None:
                # The client's version is not known; one that is not spoken here is told so in the old form.
                if reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
                    said = Connack(reason)
            elif self.version is Version.V5:
                said = self._fitting(Connack(reason, False, self._told(text)))
            elif return_code(reason) is not None:
                said = Connack(reason)
        return self._close(text, [] if said is None else [Send(said)])

    def _close(self, problem: str | None, sent: list[Effect]) -> list[Effect]:
        connect = self._connect
        is_open = self.state is State.OPEN
        self.state = State.CLOSED
        effects = [*sent]
        if is_open and connect is not None and connect.will is not None:
            if self.session.expiry_seconds:
                effects.append(KeepWill(connect.will, will_delay(connect.will, self.session.expiry_seconds)))
            else:
                effects.append(Store(NO_TICKET, Message.of(connect.will)))
        return [*effects, Close(problem)]

    def _forget_will(self) -> None:
        if self._connect is not None:
            self._connect = replace(self._connect, will=None)

    # -- what may be told ---------------------------------------------------------------------------------

    def _told(self, text: str) -> Properties:
        return {Property.REASON_STRING: text} if text and self.version is Version.V5 else NO_PROPERTIES

    def _fitting(self, packet: _Answer) -> _Answer | None:
        """The packet, without its text where the client wants none or takes none so large; None: neither."""
        if not self._tells_problems and not isinstance(packet, (Connack, Disconnect)):
            packet = _without_text(packet)
        if self._most_bytes_out == _NO_LIMIT or len(encode(packet, self.version)) <= self._most_bytes_out:
            return packet
        shorter = _without_text(packet)
        return shorter if len(encode(shorter, self.version)) <= self._most_bytes_out else None

    def _answer(self, packet: _Answer) -> list[Effect]:
        """Send an answer; a client that takes none so large can't be served."""
        fitting = self._fitting(packet)
        if fitting is None:
            return self._close("the client takes no packet as large as its answer", [])
        return [Send(fitting)]


def _without_text(packet: _Answer) -> _Answer:
    if Property.REASON_STRING not in packet.properties:
        return packet
    return replace(packet, properties=NO_PROPERTIES)
