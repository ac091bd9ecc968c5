"""What is kept of a session, as the value of a record: JSON, so that an operator can read it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.mqtt.core.decoding import decode
from ottla.mqtt.core.encoding import encode
from ottla.mqtt.core.fields import Malformed
from ottla.mqtt.core.framing import Framing
from ottla.mqtt.core.packets import Connect, RetainHandling, SubscriptionRequest, Version, Will
from ottla.mqtt.core.session import Sent, Session
from ottla.mqtt.core.subscriptions import Place, Subscription

FORMAT: Final = 1
_LARGEST: Final = 268_435_460


class UnreadableState(Exception):
    """A record is no state of a session."""


@dataclass(frozen=True, slots=True)
class KeptWill:
    """A will that is not stored yet. due_ms: when it will be; None while its client is connected."""

    will: Will
    delay_seconds: int
    due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SessionState:
    """left_ms: when its client's connection ended; None while it is connected."""

    expiry_seconds: int
    left_ms: int | None = None
    will: KeptWill | None = None
    subscriptions: tuple[Subscription, ...] = ()
    positions: Mapping[Place, int] = field(default_factory=dict)
    sent: Mapping[int, Sent] = field(default_factory=dict)

    @classmethod
    def of(
        cls, session: Session, live: Mapping[Place, int], left_ms: int | None, will: KeptWill | None
    ) -> SessionState:
        """That of a session. live: where the service's reading is, for a session that is connected."""
        return cls(
            session.expiry_seconds,
            left_ms,
            will,
            tuple(session.subscriptions.all),
            dict(session.positions if left_ms is not None else session.places(live)),
            dict(session.sent),
        )

    def session(self, client_id: str) -> Session:
        """The session, whose client is away."""
        made = Session(client_id, self.expiry_seconds)
        for each in self.subscriptions:
            made.subscriptions.put(each)
        made.positions = dict(self.positions)
        made.resume(self.sent)
        made.leave({})
        made.positions = dict(self.positions)
        return made


def encoded(state: SessionState) -> bytes:
    """The value of a record."""
    will = state.will
    found: dict[str, Any] = {
        "format": FORMAT,
        "expiry_seconds": state.expiry_seconds,
        "left_ms": state.left_ms,
        "subscriptions": [_subscription(each) for each in state.subscriptions],
        "positions": _offsets(state.positions.items()),
        "sent": [
            [packet_id, *each.at[0], each.at[1], each.size_bytes] for packet_id, each in state.sent.items()
        ],
    }
    if will is not None:
        packet = encode(Connect(Version.V5, "", will=will.will), Version.V5)
        found["will"] = {
            "connect": base64.b64encode(packet).decode(),
            "delay_seconds": will.delay_seconds,
            "due_ms": will.due_ms,
        }
    return json.dumps(found, separators=(",", ":")).encode()


def decoded(data: bytes) -> SessionState:
    """Raises UnreadableState."""
    try:
        given = json.loads(data)
        if given["format"] != FORMAT:
            raise UnreadableState(f"it has format {given['format']}; this version reads {FORMAT}")
        return SessionState(
            int(given["expiry_seconds"]),
            given["left_ms"],
            _will(given.get("will")),
            tuple(map(_read_subscription, given["subscriptions"])),
            _read_offsets(given["positions"]),
            {
                int(packet_id): Sent(((str(topic), int(partition)), int(offset)), int(size))
                for packet_id, topic, partition, offset, size in given["sent"]
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError, Malformed) as problem:
        raise UnreadableState(repr(problem)) from None


def _offsets(places: Iterable[tuple[Place, int]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in places:
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _read_offsets(given: Any) -> dict[Place, int]:
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in given.items()
        for partition, offset in partitions.items()
    }


def _subscription(each: Subscription) -> dict[str, Any]:
    request = each.request
    return {
        "filter": request.filter,
        "qos": request.qos,
        "no_local": request.no_local,
        "retain_as_published": request.retain_as_published,
        "retain_handling": int(request.retain_handling),
        "identifier": each.identifier,
        "begins": _offsets(each.begins.items()),
    }


def _read_subscription(given: Any) -> Subscription:
    request = SubscriptionRequest(
        str(given["filter"]),
        int(given["qos"]),
        bool(given["no_local"]),
        bool(given["retain_as_published"]),
        RetainHandling(given["retain_handling"]),
    )
    return Subscription(request, given["identifier"], _read_offsets(given["begins"]))


def _will(given: Any) -> KeptWill | None:
    if given is None:
        return None
    framing = Framing(_LARGEST)
    framing.feed(base64.b64decode(given["connect"]))
    frame = framing.next()
    if frame is None:
        raise UnreadableState("its will is not complete")
    packet = decode(*frame, Version.V5)
    if not isinstance(packet, Connect) or packet.will is None:
        raise UnreadableState("its will is none")
    return KeptWill(packet.will, int(given["delay_seconds"]), given["due_ms"])
