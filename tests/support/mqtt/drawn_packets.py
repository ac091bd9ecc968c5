"""Packets of MQTT drawn by hypothesis: every type, every property where it may stand."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ottla.mqtt.core import decoding
from ottla.mqtt.core.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    RetainHandling,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
    Version,
    Will,
)
from ottla.mqtt.core.properties import NO_PROPERTIES, RULES, Place, Properties, Property
from ottla.mqtt.core.reason_codes import ReasonCode

packet_ids = st.integers(1, 0xFFFF)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)
_letters = st.characters(exclude_characters="\0/+#", exclude_categories=("Cs",))
levels = st.text(_letters, max_size=6)
names = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
plain_filters = st.tuples(
    st.lists(st.one_of(levels, st.just("+")), min_size=1, max_size=3), st.sampled_from(["", "/#"])
).map(lambda drawn: "/".join(drawn[0]) + drawn[1])
filters = st.one_of(
    st.just("#"),
    plain_filters.filter(lambda text: bool(text) and not text.startswith("$share")),
    st.builds(lambda name, each: f"$share/{name or 'g'}/{each or '+'}", levels, plain_filters),
)
data = st.binary(max_size=40)

_NUMBERS = {
    Property.SUBSCRIPTION_IDENTIFIER: st.integers(1, 268_435_455),
    Property.RECEIVE_MAXIMUM: packet_ids,
    Property.MAXIMUM_PACKET_SIZE: st.integers(1, 0xFFFFFFFF),
    Property.SERVER_KEEP_ALIVE: st.integers(0, 0xFFFF),
    Property.TOPIC_ALIAS_MAXIMUM: st.integers(0, 0xFFFF),
    Property.TOPIC_ALIAS: packet_ids,
    Property.MESSAGE_EXPIRY_INTERVAL: st.integers(0, 0xFFFFFFFF),
    Property.SESSION_EXPIRY_INTERVAL: st.integers(0, 0xFFFFFFFF),
    Property.WILL_DELAY_INTERVAL: st.integers(0, 0xFFFFFFFF),
}
_TEXTS = frozenset(
    {
        Property.CONTENT_TYPE,
        Property.ASSIGNED_CLIENT_IDENTIFIER,
        Property.AUTHENTICATION_METHOD,
        Property.RESPONSE_INFORMATION,
        Property.SERVER_REFERENCE,
        Property.REASON_STRING,
    }
)
_DATA = frozenset({Property.CORRELATION_DATA, Property.AUTHENTICATION_DATA})


def _values(name: Property) -> st.SearchStrategy[Any]:
    if name is Property.USER_PROPERTY:
        return st.lists(st.tuples(texts, texts), min_size=1, max_size=3).map(tuple)
    if name is Property.SUBSCRIPTION_IDENTIFIER:
        return st.lists(_NUMBERS[name], min_size=1, max_size=3).map(tuple)
    if name is Property.RESPONSE_TOPIC:
        return names
    if name in _TEXTS:
        return texts
    if name in _DATA:
        return data
    return _NUMBERS.get(name, st.integers(0, 1))


@st.composite
def properties(draw: st.DrawFn, place: Place, version: Version) -> Properties:
    """Properties that `place` may have; none in 3.1.1."""
    if version is not Version.V5:
        return NO_PROPERTIES
    allowed = [Property(number) for number, rule in RULES.items() if place in rule.places]
    chosen = draw(st.lists(st.sampled_from(allowed), unique=True, max_size=6))
    found: dict[Property, Any] = {name: draw(_values(name)) for name in chosen}
    if place is Place.SUBSCRIBE and Property.SUBSCRIPTION_IDENTIFIER in found:
        found[Property.SUBSCRIPTION_IDENTIFIER] = found[Property.SUBSCRIPTION_IDENTIFIER][:1]
    if Property.AUTHENTICATION_DATA in found or place is Place.AUTH:
        found.setdefault(Property.AUTHENTICATION_METHOD, "SCRAM-SHA-1")
    return found


@st.composite
def connects(draw: st.DrawFn, version: Version) -> Connect:
    will = None
    if draw(st.booleans()):
        will = Will(
            draw(names),
            draw(data),
            draw(st.integers(0, 2)),
            draw(st.booleans()),
            draw(properties(Place.WILL, version)),
        )
    user_name = draw(st.none() | texts)
    with_password = user_name is not None or version is Version.V5
    return Connect(
        version,
        draw(texts),
        draw(st.booleans()),
        draw(st.integers(0, 0xFFFF)),
        user_name,
        draw(st.none() | data) if with_password else None,
        will,
        draw(properties(Place.CONNECT, version)),
    )


@st.composite
def publishes(draw: st.DrawFn, version: Version) -> Publish:
    qos = draw(st.integers(0, 2))
    return Publish(
        draw(names),
        draw(data),
        qos,
        draw(st.booleans()),
        bool(qos) and draw(st.booleans()),
        draw(packet_ids) if qos else None,
        draw(properties(Place.PUBLISH, version)),
    )


@st.composite
def subscribes(draw: st.DrawFn, version: Version) -> Subscribe:
    requests: list[SubscriptionRequest] = []
    for filter_ in draw(st.lists(filters, min_size=1, max_size=4)):
        qos = draw(st.integers(0, 2))
        if version is Version.V5:
            no_local = not filter_.startswith("$share/") and draw(st.booleans())
            handling = draw(st.sampled_from(RetainHandling))
            requests.append(SubscriptionRequest(filter_, qos, no_local, draw(st.booleans()), handling))
        else:
            requests.append(SubscriptionRequest(filter_, qos))
    return Subscribe(draw(packet_ids), tuple(requests), draw(properties(Place.SUBSCRIBE, version)))


def _reasons(known: frozenset[ReasonCode], version: Version) -> st.SearchStrategy[ReasonCode]:
    return st.sampled_from(sorted(known)) if version is Version.V5 else st.just(ReasonCode.SUCCESS)


def _answers(kind: Any, place: Place, known: frozenset[ReasonCode], version: Version) -> Any:
    return st.builds(kind, packet_ids, _reasons(known, version), properties(place, version))


@st.composite
def connacks(draw: st.DrawFn, version: Version) -> Connack:
    known = decoding._CONNACKS if version is Version.V5 else frozenset(decoding._RETURN_CODES.values())
    reason = draw(st.sampled_from(sorted(known)))
    present = not reason.is_failure and draw(st.booleans())
    return Connack(reason, present, draw(properties(Place.CONNACK, version)))


def packets(version: Version) -> st.SearchStrategy[Packet]:
    """Any packet of this version."""
    v5 = version is Version.V5
    granted = frozenset({ReasonCode(0), ReasonCode(1), ReasonCode(2), ReasonCode.UNSPECIFIED_ERROR})
    subscribed = decoding._SUBSCRIBE_ANSWERS if v5 else granted
    codes = st.lists(st.sampled_from(sorted(subscribed)), min_size=1, max_size=4).map(tuple)
    ended = st.lists(st.sampled_from(sorted(decoding._UNSUBSCRIBE_ANSWERS)), min_size=1, max_size=4).map(
        tuple
    )
    every: list[st.SearchStrategy[Packet]] = [
        connects(version),
        connacks(version),
        publishes(version),
        _answers(Puback, Place.PUBACK, decoding._PUBLISH_ANSWERS, version),
        _answers(Pubrec, Place.PUBREC, decoding._PUBLISH_ANSWERS, version),
        _answers(Pubrel, Place.PUBREL, decoding._RELEASES, version),
        _answers(Pubcomp, Place.PUBCOMP, decoding._RELEASES, version),
        subscribes(version),
        st.builds(Suback, packet_ids, codes, properties(Place.SUBACK, version)),
        st.builds(
            Unsubscribe,
            packet_ids,
            st.lists(filters, min_size=1, max_size=4).map(tuple),
            properties(Place.UNSUBSCRIBE, version),
        ),
        st.builds(Unsuback, packet_ids, ended if v5 else st.just(()), properties(Place.UNSUBACK, version)),
        st.just(Pingreq()),
        st.just(Pingresp()),
        st.builds(
            Disconnect, _reasons(decoding._DISCONNECTS, version), properties(Place.DISCONNECT, version)
        ),
    ]
    if v5:
        steps = _reasons(decoding._AUTH_STEPS, version)
        every.append(st.builds(Auth, steps, properties(Place.AUTH, version)))
    return st.one_of(every)
