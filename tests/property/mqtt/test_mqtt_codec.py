"""Packets of MQTT survive their bytes, however these are cut; any bytes are a packet, or malformed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.mqtt.core.decoding import decode
from ottla.mqtt.core.encoding import encode
from ottla.mqtt.core.fields import Malformed
from ottla.mqtt.core.filter_tree import FilterTree
from ottla.mqtt.core.framing import Framing
from ottla.mqtt.core.messages import Message, headers, message_of
from ottla.mqtt.core.packets import Packet, Publish, Version
from ottla.mqtt.core.properties import Property
from ottla.mqtt.core.reason_codes import ReasonCode
from ottla.mqtt.core.topics import is_filter, matches
from support.mqtt.drawn_packets import names, packets, publishes

versions = st.sampled_from(Version)
filters_of_few = st.tuples(
    st.lists(st.sampled_from(["a", "b", "", "+", "$s"]), min_size=1, max_size=4), st.booleans()
).map(lambda drawn: "/".join([*drawn[0], "#"] if drawn[1] else drawn[0]))


@given(st.data(), versions)
def test_packets_survive_their_bytes_however_they_are_cut(data: st.DataObject, version: Version) -> None:
    drawn = data.draw(st.lists(packets(version), min_size=1, max_size=5))
    stream = b"".join(encode(each, version) for each in drawn)
    framing = Framing(len(stream))
    found: list[Packet] = []
    while stream:
        count = data.draw(st.integers(1, len(stream)))
        framing.feed(stream[:count])
        stream = stream[count:]
        while (frame := framing.next()) is not None:
            found.append(decode(*frame, version))
    assert found == drawn
    assert framing.held == 0


@given(st.integers(0, 255), st.binary(max_size=60), versions)
def test_any_body_is_a_packet_or_malformed(first_byte: int, body: bytes, version: Version) -> None:
    try:
        packet = decode(first_byte, body, version)
    except Malformed as problem:
        assert problem.reason.is_failure
    else:
        assert decode_again(packet, version) == packet


def decode_again(packet: Packet, version: Version) -> Packet:
    framing = Framing(1_000)
    framing.feed(encode(packet, getattr(packet, "version", version)))
    frame = framing.next()
    assert frame is not None
    return decode(*frame, version)


@given(st.data(), versions)
def test_a_damaged_packet_is_another_one_or_malformed(data: st.DataObject, version: Version) -> None:
    whole = bytearray(encode(data.draw(packets(version)), version))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    framing = Framing(10_000)
    framing.feed(bytes(whole))
    with_problem = False
    try:
        frame = framing.next()
        if frame is not None:
            decode(*frame, version)
    except Malformed:
        with_problem = True
    assert with_problem or framing.held <= len(whole)


@given(st.data(), versions)
def test_a_packet_over_the_bound_is_refused_before_its_body_comes(
    data: st.DataObject, version: Version
) -> None:
    whole = encode(data.draw(packets(version).filter(lambda one: len(encode(one, version)) > 5)), version)
    framing = Framing(len(whole) - 1)
    framing.feed(whole[:5])
    with pytest.raises(Malformed) as refused:
        framing.next()
    assert refused.value.reason is ReasonCode.PACKET_TOO_LARGE


def reference_match(filter_: list[str], name: list[str]) -> bool:
    """Level by level, from the definition."""
    if not filter_:
        return not name
    if filter_[0] == "#":
        return True
    return bool(name) and filter_[0] in ("+", name[0]) and reference_match(filter_[1:], name[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "", "+"]), min_size=1, max_size=4),
    st.booleans(),
    st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=4),
)
def test_filters_match_by_levels(levels: list[str], is_open: bool, name: list[str]) -> None:
    wanted = [*levels, "#"] if is_open else levels
    if wanted != [""]:
        assert is_filter("/".join(wanted))
    assert matches(wanted, "/".join(name)) == reference_match(wanted, name)
    assert not matches(wanted, "$" + "/".join(name)) or wanted[0] not in ("+", "#")


@given(
    st.lists(st.tuples(filters_of_few, st.integers(0, 3)), max_size=12),
    st.lists(st.integers(0, 11), max_size=6),
    st.lists(st.sampled_from(["a", "b", "", "$s"]), min_size=1, max_size=4),
)
def test_a_tree_of_filters_finds_what_each_filter_matches(
    added: list[tuple[str, int]], taken: list[int], name: list[str]
) -> None:
    tree: FilterTree[int] = FilterTree()
    there = set(added)
    for filter_, value in added:
        tree.add(filter_, value)
    for place in taken:
        if place < len(added):
            tree.discard(*added[place])
            there.discard(added[place])
    topic = "/".join(name)
    assert tree.matching(topic) == {value for filter_, value in there if matches(filter_.split("/"), topic)}
    for filter_, value in there:
        tree.discard(filter_, value)
    assert not tree


@given(publishes(Version.V5), names)
def test_a_message_comes_back_from_its_record(packet: Publish, topic: str) -> None:
    message = Message.of(replace(packet, topic=topic))
    record = headers(message, "dev")
    found = message_of(b"any key", message.payload, record)
    assert found is not None
    back, publisher = found
    lost = {Property.TOPIC_ALIAS, Property.SUBSCRIPTION_IDENTIFIER}
    kept = {name: value for name, value in message.properties.items() if name not in lost}
    assert (back.topic, back.payload, publisher) == (topic, message.payload, "dev")
    assert back.properties == kept


@given(st.binary(max_size=20), st.lists(st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=9))))
def test_any_record_is_a_message_that_can_be_sent_or_none(
    key: bytes, given_headers: list[tuple[str, bytes | None]]
) -> None:
    names_of_ours = ["mqtt.topic", "mqtt.message.expiry", "mqtt.response.topic", "mqtt.payload.format"]
    mixed = [
        *given_headers,
        *((name, data) for name, (_, data) in zip(names_of_ours, given_headers, strict=False)),
    ]
    usable = [(name, data) for name, data in mixed if name.isprintable()]
    found = message_of(key, b"x", usable)
    if found is not None:
        packet = Publish(found[0].topic, b"x", properties=found[0].properties)
        assert decode_again(packet, Version.V5) == packet
