"""Retained messages in memory: found as filters match, bounded, and gone when they have expired."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.mqtt.core.messages import Message
from ottla.mqtt.core.properties import Property
from ottla.mqtt.core.retained_messages import LEVEL_BYTES, MESSAGE_BYTES, Retained, RetainedMessages
from ottla.mqtt.core.topics import matches

LEVELS = st.sampled_from(["a", "b", "", "$a"])
NAMES = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = st.tuples(
    st.lists(st.sampled_from(["a", "b", "", "$a", "+"]), max_size=4), st.sampled_from([[], ["#"]])
).map(lambda parts: "/".join([*parts[0], *parts[1]]))


def retained(topic: str, payload: bytes = b"x", expiry: int | None = None, stored_s: float = 100) -> Retained:
    properties = {} if expiry is None else {Property.MESSAGE_EXPIRY_INTERVAL: expiry}
    return Retained.of(Message(topic, payload, properties=properties), "c", stored_s)


def kept(*topics: str, most_bytes: int = 1 << 20) -> RetainedMessages:
    found = RetainedMessages(most_bytes)
    for each in topics:
        assert found.put(retained(each))
    return found


@given(st.sets(NAMES), st.sets(NAMES), FILTERS.filter(bool))
def test_a_filter_finds_what_it_matches(names: set[str], discarded: set[str], filter_: str) -> None:
    messages = kept(*names)
    for each in discarded:
        messages.discard(each)
    expected = [each for each in sorted(names - discarded) if matches(filter_.split("/"), each)]
    assert sorted(messages.topics(filter_)) == expected


def test_nothing_is_left_of_what_is_discarded() -> None:
    messages = kept("a/b/c", "a", "x//y")
    for topic in ("a", "a/b/c", "x//y", "never/there"):
        messages.discard(topic)
    assert (len(messages), messages.size_bytes, messages.topics("#")) == (0, 0, [])


def test_a_message_replaces_the_one_before() -> None:
    messages = kept("a/b")
    before = messages.size_bytes
    assert messages.put(retained("a/b", b"longer"))
    assert messages.size_bytes == before + 5
    found = messages.get("a/b", 0)
    assert found is not None and found.message.payload == b"longer"
    assert len(messages) == 1


def test_what_finds_no_room_is_left_out() -> None:
    one = MESSAGE_BYTES + LEVEL_BYTES + 2
    messages = kept("a", "b", most_bytes=2 * one)
    assert not messages.put(retained("c"))
    assert messages.size_with(Message("c", b"x")) == 3 * one
    assert not messages.put(retained("a", b"too long"))
    assert messages.topics("#") == ["b"]  # rather none than the former one
    assert messages.put(retained("c"))


def test_a_topic_of_many_levels_counts_for_what_it_takes() -> None:
    messages = RetainedMessages(1 << 20)
    assert not messages.put(retained("/" * 30_000))


def test_what_has_expired_is_given_out_no_more_and_swept() -> None:
    messages = RetainedMessages(1 << 20)
    messages.put(retained("a", expiry=10))
    messages.put(retained("b", expiry=10))
    messages.put(retained("b", expiry=60, stored_s=105))
    assert messages.get("a", 109.9) is not None and messages.get("a", 110) is None
    messages.sweep(110)
    assert messages.topics("#") == ["b"]
    messages.sweep(165)
    assert (len(messages), messages.size_bytes) == (0, 0)


def test_expiries_of_replaced_messages_do_not_pile_up() -> None:
    messages = RetainedMessages(1 << 20)
    for number in range(5_000):
        messages.put(retained("a", expiry=1_000 + number))
    assert len(messages._expiries) <= 1_100
