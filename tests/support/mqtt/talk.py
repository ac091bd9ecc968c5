"""One client's talk with the machine of a connection, without a network: bytes in, packets out."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    Event,
    FallBehind,
    Granted,
    KeepWill,
    Limits,
    Received,
    Refused,
    Send,
    Store,
    Stored,
)
from ottla.mqtt.core.decoding import decode
from ottla.mqtt.core.encoding import encode
from ottla.mqtt.core.fields import Malformed
from ottla.mqtt.core.framing import Framing
from ottla.mqtt.core.messages import Message
from ottla.mqtt.core.packets import Packet, SubscriptionRequest, Version
from ottla.mqtt.core.reason_codes import ReasonCode
from ottla.mqtt.core.session import Session

LIMITS = Limits(packet_bytes=10_000, receive_maximum=3, topic_aliases=5, keep_alive_seconds=100)


@dataclass(slots=True)
class Talk:
    """What was said so far. keeps: tickets are left unanswered, else messages are stored at once.

    refuses: why messages are refused, by their topics. session: that of an earlier connection.
    """

    limits: Limits = LIMITS
    keeps: bool = False
    refuses: dict[str, ReasonCode] = field(default_factory=dict)
    sent: list[Packet] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    tickets: list[int] = field(default_factory=list)
    kept_wills: list[KeepWill] = field(default_factory=list)
    silence_seconds: float | None = None
    session: Session | None = None
    problem: str | None = None
    is_closed: bool = False
    machine: Connection = field(init=False)
    _framing: Framing = field(init=False)

    def __post_init__(self) -> None:
        self.machine = Connection(self.limits)
        self._framing = Framing(self.limits.packet_bytes)

    def say(self, *parts: Packet | bytes | Event) -> Talk:
        """Packets, raw bytes, or events."""
        for part in parts:
            if isinstance(part, bytes):
                self._bytes(part)
            elif type(part).__module__ == "ottla.mqtt.core.packets":
                version = getattr(part, "version", self.machine.version)
                self._bytes(encode(part, version))  # type: ignore[arg-type]
            else:
                self.step(part)  # type: ignore[arg-type]
        return self

    def _bytes(self, data: bytes) -> None:
        self._framing.feed(data)
        try:
            while not self.is_closed and (frame := self._framing.next()) is not None:
                self.step(Received(decode(*frame, self.machine.version)))
        except Malformed as problem:
            self.step(Broken(problem))

    def step(self, event: Event) -> None:
        for effect in self.machine.step(event):
            match effect:
                case Send(packet):
                    assert not self.is_closed, "nothing is sent behind the end"
                    encode(packet, self.machine.version)
                    self.sent.append(packet)
                case Store(ticket, message):
                    self._store(ticket, message)
                case Deliver(packet):
                    self.sent.append(packet)
                case FallBehind(at):
                    self.machine.session.fall_behind({at[0]: at[1]})
                case KeepWill():
                    self.kept_wills.append(effect)
                case CheckFilters(packet):
                    self.step(Granted(packet, tuple(map(self._granted, packet.requests))))
                case CheckClient():
                    self.step(Admitted("assigned", self.session, self.session is not None))
                case Begin(_, silence_seconds):
                    self.silence_seconds = silence_seconds
                case Close(problem):
                    self.is_closed, self.problem = True, problem

    def _granted(self, request: SubscriptionRequest) -> ReasonCode:
        return self.refuses.get(request.filter, ReasonCode.SUCCESS)

    def _store(self, ticket: int, message: Message) -> None:
        self.messages.append(message)
        self.tickets.append(ticket)
        if ticket == NO_TICKET or self.keeps:
            return
        refusal = self.refuses.get(message.topic)
        self.step(Stored(ticket) if refusal is None else Refused(ticket, refusal, "it is refused"))

    @property
    def last(self) -> Packet:
        return self.sent[-1]

    @property
    def speaks_5(self) -> bool:
        return self.machine.version is Version.V5
