"""A client's session: its subscriptions, and how far it has got in Kafka's partitions.

Theory of operation. Messages of QoS 1 are not copied for a session: it knows offsets. It is live where it
takes what the service's one reading brings, at that reading's own places. One whose client takes no more for
now, or was away, is behind: `reading` says from which offset on of each partition it is read for on its own,
until that is as far as the service's reading. `positions` are the first offsets that were never handled. What
lies below is sent again where it was sent and not acknowledged (`_again`: under its former packet identifier,
with DUP), and passed over else. So a session needs no more than offsets, and no message comes to an
acknowledging client twice but for a kill.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ottla.mqtt.core.packets import Connect, Publish, Version, Will
from ottla.mqtt.core.properties import Property
from ottla.mqtt.core.subscriptions import At, Place, Subscriptions

NEVER: Final = 0xFFFF_FFFF
"""As a number of seconds: a session that does not expire."""
MOST_SENT: Final = 1_000
"""Messages of QoS 1 that one client is sent without its acknowledgement, whatever it allows."""
MOST_SENT_BYTES: Final = 1 << 20
LARGEST_PACKET_ID: Final = 65_535


def granted_seconds(connect: Connect, most: int) -> int:
    """How long the session of a CONNECT outlives its connection: 3.1.1 says only whether."""
    if connect.version is not Version.V5:
        return 0 if connect.clean_start else most
    asked: int = connect.properties.get(Property.SESSION_EXPIRY_INTERVAL, 0)
    return min(asked, most)


def will_delay(will: Will, expiry_seconds: int) -> int:
    """How many seconds a will waits behind the end of its connection: no longer than the session lasts."""
    asked: int = will.properties.get(Property.WILL_DELAY_INTERVAL, 0)
    return min(asked, expiry_seconds)


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that its client has not acknowledged yet."""

    at: At
    size_bytes: int


class Session:
    """Of one client. most_sent: what its client allows, by Receive Maximum."""

    def __init__(self, client_id: str = "", expiry_seconds: int = 0) -> None:
        self.client_id = client_id
        self.expiry_seconds = expiry_seconds
        self.subscriptions: Final = Subscriptions()
        self.most_sent = MOST_SENT
        self.positions: dict[Place, int] = {}
        self.reading: dict[Place, int] | None = None
        self._sent: dict[int, Sent] = {}
        self._sent_bytes = 0
        self._again: dict[At, int] = {}
        self._last_packet_id = 0

    # -- what was sent --------------------------------------------------------------------------------------

    @property
    def sent(self) -> Mapping[int, Sent]:
        """What was sent and not acknowledged, by packet identifiers."""
        return self._sent

    @property
    def has_room(self) -> bool:
        """Whether one more message may be sent."""
        return len(self._sent) < min(self.most_sent, MOST_SENT) and self._sent_bytes < MOST_SENT_BYTES

    @property
    def is_half_empty(self) -> bool:
        """Whether it is worth to look for more."""
        most = min(self.most_sent, MOST_SENT)
        return 2 * len(self._sent) <= most and 2 * self._sent_bytes <= MOST_SENT_BYTES

    @property
    def wanted(self) -> int:
        """How many messages of the log it can take; 0: none until its client acknowledges some."""
        most = min(self.most_sent, MOST_SENT)
        room = most - len(self._sent) if self._sent_bytes < MOST_SENT_BYTES else 0
        return max(room, 0) + len(self._again)

    def send(self, packet: Publish, at: At) -> Publish:
        """The packet with its identifier: a new one, or that under which it was sent before."""
        packet_id = self._again.pop(at, None)
        again = packet_id is not None
        if packet_id is None:
            packet_id = self._free_packet_id()
        else:
            self._sent_bytes -= self._sent[packet_id].size_bytes
        size = len(packet.payload) + len(packet.topic)
        self._sent[packet_id] = Sent(at, size)
        self._sent_bytes += size
        return replace(packet, packet_id=packet_id, duplicate=again)

    def acknowledged(self, packet_id: int) -> bool:
        """The client has a message, or refuses it; whether one was sent under this identifier."""
        sent = self._sent.pop(packet_id, None)
        if sent is None:
            return False
        self._sent_bytes -= sent.size_bytes
        self._again.pop(sent.at, None)
        return True

    def _free_packet_id(self) -> int:
        packet_id = self._last_packet_id
        while True:
            packet_id = packet_id % LARGEST_PACKET_ID + 1
            if packet_id not in self._sent:
                self._last_packet_id = packet_id
                return packet_id

    # -- places ---------------------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether it is read for on its own."""
        return self.reading is not None

    def fall_behind(self, positions: Mapping[Place, int]) -> None:
        """Take no more of the service's reading, which is at these places."""
        assert self.reading is None, "it is behind already"
        self.positions = dict(positions)
        self.reading = dict(positions)

    def leave(self, positions: Mapping[Place, int]) -> None:
        """Its connection is over, with the service's reading at these places."""
        if self.reading is None:
            self.positions = dict(positions)
        self.reading = None
        self._again = {}

    def resume(self, sent: Mapping[int, Sent] | None = None) -> None:
        """A connection begins, or with `sent` a session is made of what is known of it."""
        if sent is not None:
            self._sent = dict(sent)
            self._last_packet_id = max(sent, default=0)
        self._again = {each.at: packet_id for packet_id, each in self._sent.items()}
        self._sent_bytes = sum(each.size_bytes for each in self._sent.values())
        if self._sent or self.subscriptions.are_acknowledged:
            self.reading = dict(self.positions)
            for place, offset in self._again:
                self.reading[place] = min(offset, self.reading.get(place, offset))

    def takes(self, at: At) -> bool:
        """Whether a record that is read for it can be handled now."""
        return self.has_room or at[1] < self.positions.get(at[0], 0)

    def is_due(self, at: At) -> bool:
        """Whether a record that is read for it is to be sent, now or again; it is handled with that."""
        place, offset = at
        assert self.reading is not None, "it is behind"
        self.reading[place] = max(self.reading.get(place, 0), offset + 1)
        if offset < self.positions.get(place, 0):
            return at in self._again
        self.positions[place] = offset + 1
        return True

    def pass_to(self, places: Mapping[Place, int]) -> None:
        """There is nothing for it before these places."""
        assert self.reading is not None, "it is behind"
        for place, offset in places.items():
            self.reading[place] = max(self.reading.get(place, 0), offset)
            self.positions[place] = max(self.positions.get(place, 0), offset)

    def catch_up(self, live: Mapping[Place, int]) -> bool:
        """Go on with the service's reading, if this is as far; what is left to be sent again is gone then."""
        reading = self.reading
        assert reading is not None, "it is behind"
        if any(reading.get(place, 0) < offset for place, offset in live.items()):
            return False
        for packet_id in list(self._again.values()):
            self.acknowledged(packet_id)
        self.reading = None
        self.subscriptions.forget_begins()
        return True

    def places(self, live: Mapping[Place, int]) -> Mapping[Place, int]:
        """The first offsets that were never handled."""
        return self.positions if self.reading is not None else live

    @property
    def filters(self) -> Collection[str]:
        """Of its subscriptions."""
        return self.subscriptions.filters
