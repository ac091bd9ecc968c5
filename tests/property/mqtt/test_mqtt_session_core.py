"""A session gets each message of its partitions, in order, whatever happens to its connections."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.mqtt.core.connection import Ended, Limits, Reread
from ottla.mqtt.core.messages import Message
from ottla.mqtt.core.packets import Connect, Puback, Publish, Subscribe, SubscriptionRequest, Version, Will
from ottla.mqtt.core.properties import Property
from ottla.mqtt.core.session import Sent, Session
from ottla.mqtt.core.session_state import KeptWill, SessionState, decoded, encoded
from ottla.mqtt.core.shards import owner
from ottla.mqtt.core.subscriptions import Arrived, Place, Subscription
from support.mqtt.drawn_packets import names
from support.mqtt.talk import Talk

PLACES: list[Place] = [("t", 0), ("t", 1), ("u", 0)]
LIMITS = Limits(session_seconds=1_000)
SECONDS = {Property.SESSION_EXPIRY_INTERVAL: 100, Property.RECEIVE_MAXIMUM: 3}

steps = st.lists(
    st.one_of(
        st.sampled_from(PLACES),
        st.sampled_from(["acknowledge", "acknowledge last", "lose", "kill", "read"]),
    ),
    max_size=60,
)


class World:
    """A client that acknowledges as it is told, a log, and a proxy that reads it."""

    def __init__(self) -> None:
        self.ends: dict[Place, int] = dict.fromkeys(PLACES, 0)
        self.session = Session("c", 100)
        self.kept = encoded(SessionState.of(self.session, self.ends, 0, None))
        self.talk = self.connected(present=False)
        self.talk.say(Subscribe(1, (SubscriptionRequest("#", 1),)))
        self.keep()
        self.unacknowledged: list[Publish] = []
        self.seen: list[tuple[bytes, bool]] = []
        self.acknowledged: set[bytes] = set()

    def connected(self, *, present: bool = True) -> Talk:
        self.session.resume()
        talk = Talk(LIMITS, session=self.session)
        return talk.say(Connect(Version.V5, "c", clean_start=not present, properties=SECONDS))

    def keep(self, left_ms: int | None = None) -> None:
        self.kept = encoded(SessionState.of(self.session, self.ends, left_ms, None))

    def arrived(self, place: Place, offset: int) -> Arrived:
        name = f"{place[0]}/{place[1]}/{offset}"
        return Arrived(Message(name, name.encode(), qos=1), "other", 0, (place, offset))

    def take(self) -> None:
        """What the client was sent since."""
        for each in self.talk.sent:
            if isinstance(each, Publish):
                self.unacknowledged.append(each)
                self.seen.append((each.payload, each.duplicate))
        self.talk.sent.clear()

    def read(self) -> None:
        """What the proxy reads for a session that is behind."""
        session = self.session
        while session.reading is not None and not session.catch_up(self.ends) and session.wanted:
            reading = dict(session.reading)
            full = False
            for place in PLACES:
                for offset in range(reading.get(place, 0), self.ends[place]):
                    arrived = self.arrived(place, offset)
                    if not session.takes((place, offset)):
                        full = True
                        break
                    self.talk.say(Reread(arrived))
            if full:
                break

    def step(self, step: Place | str) -> None:
        match step:
            case "acknowledge" | "acknowledge last":
                if self.unacknowledged:
                    packet = self.unacknowledged.pop(0 if step == "acknowledge" else -1)
                    assert packet.packet_id is not None
                    self.acknowledged.add(packet.payload)
                    self.talk.say(Puback(packet.packet_id))
            case "lose":
                self.talk.say(Ended.LOST)
                self.session.leave(self.ends)
                self.keep(1)
                self.unacknowledged.clear()
                self.talk = self.connected()
            case "kill":
                self.session = decoded(self.kept).session("c")
                self.unacknowledged.clear()
                self.talk = self.connected()
            case "read":
                self.read()
            case (str() as topic, int() as partition):
                place = (topic, partition)
                self.ends[place] += 1
                self.talk.say(self.arrived(place, self.ends[place] - 1))
        self.take()


@settings(max_examples=300, deadline=None)
@given(steps)
def test_no_message_is_missed_and_none_comes_again_that_was_acknowledged(steps: list[Place | str]) -> None:
    world = World()
    for step in steps:
        done = set(world.acknowledged)
        before = len(world.seen)
        world.step(step)
        if "kill" not in steps:
            assert not done & {payload for payload, _ in world.seen[before:]}
        assert len(world.session.sent) <= 3
    while world.unacknowledged or world.session.is_behind:
        world.step("acknowledge")
        world.step("read")
    for place in PLACES:
        name = f"{place[0]}/{place[1]}/".encode()
        fresh = list(dict.fromkeys(payload for payload, _ in world.seen if payload.startswith(name)))
        assert fresh == [name + b"%d" % offset for offset in range(world.ends[place])]
    if "kill" not in steps and "lose" not in steps:
        assert not any(duplicate for _, duplicate in world.seen)


offsets = st.dictionaries(st.tuples(names, st.integers(0, 99)), st.integers(0, 1 << 62), max_size=3)
wills = st.builds(
    Will,
    names,
    st.binary(max_size=20),
    st.integers(0, 1),
    st.booleans(),
    st.just({Property.USER_PROPERTY: (("a", "b"),), Property.WILL_DELAY_INTERVAL: 5}),
)
states = st.builds(
    SessionState,
    st.integers(0, 0xFFFFFFFF),
    st.none() | st.integers(0, 1 << 50),
    st.none() | st.builds(KeptWill, wills, st.integers(0, 99), st.none() | st.integers(0, 1 << 50)),
    st.lists(
        st.builds(
            Subscription,
            st.builds(SubscriptionRequest, names, st.integers(0, 2), st.booleans()),
            st.none() | st.integers(1, 99),
            offsets,
        ),
        max_size=3,
    ).map(tuple),
    offsets,
    st.dictionaries(
        st.integers(1, 65_535),
        st.builds(Sent, st.tuples(st.tuples(names, st.integers(0, 9)), st.integers(0, 1 << 62)), st.just(7)),
        max_size=3,
    ),
)


@given(states)
def test_a_state_comes_back_as_it_was_kept(state: SessionState) -> None:
    assert decoded(encoded(state)) == state


def test_who_was_away_gets_what_was_sent_again_with_its_identifier() -> None:
    world = World()
    for _ in range(5):
        world.step(PLACES[0])
    world.step("acknowledge last")
    world.step("lose")
    assert world.seen == [(b"t/0/%d" % offset, False) for offset in range(3)]
    world.step("read")
    again = [(each.packet_id, each.payload, each.duplicate) for each in world.unacknowledged]
    assert again == [(1, b"t/0/0", True), (2, b"t/0/1", True), (4, b"t/0/3", False)]


@given(st.sets(st.text(max_size=20), min_size=1, max_size=6), st.text(max_size=20))
def test_a_copy_that_comes_moves_shards_to_itself_alone(addresses: set[str], another: str) -> None:
    for shard in range(16):
        before, behind = owner(shard, addresses), owner(shard, addresses | {another})
        assert before in addresses
        assert behind in (before, another)


def test_shards_are_spread() -> None:
    addresses = [f"10.0.0.{number}:1884" for number in range(4)]
    found = [owner(shard, addresses) for shard in range(400)]
    assert all(60 < found.count(each) < 140 for each in addresses)
