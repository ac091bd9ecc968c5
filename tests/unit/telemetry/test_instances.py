"""Client instances: which requests are taken, and which instances are kept."""

from __future__ import annotations

import itertools
import uuid

import pytest

from ottla.core.telemetry.instances import (
    NO_UUID,
    ClientAddress,
    ClientInstance,
    ClientInstances,
    Push,
)
from ottla.core.telemetry.subscriptions import read_subscriptions
from ottla.protocol.errors import (
    InvalidRequest,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)

ADDRESS = ClientAddress("app", "java", "4.4.0", "127.0.0.1", 5000)
INTERVAL_MS = 1_000
MAX_BYTES = 100


def instances(capacity: int = 100) -> ClientInstances:
    made = ClientInstances(MAX_BYTES, capacity)
    subscribe_all(made, INTERVAL_MS)
    return made


def subscribe_all(to: ClientInstances, interval_ms: int) -> None:
    to.take_subscriptions(read_subscriptions({"s": {"metrics": "*", "interval.ms": str(interval_ms)}})[0])


def got(
    from_: ClientInstances, now_ms: int, instance_id: uuid.UUID = NO_UUID, on: str = "c"
) -> ClientInstance:
    return from_.subscribe(instance_id, ADDRESS, on, now_ms, uuid.uuid4)


def push(
    of: ClientInstance, *, subscription_id: int | None = None, last: bool = False, codec: int = 0
) -> Push:
    known = of.subscription_id if subscription_id is None else subscription_id
    return Push(of.instance_id, known, last, codec, 10)


def test_a_client_without_an_id_gets_one_that_no_other_has() -> None:
    held = instances()
    first = got(held, 0)
    ids = iter([NO_UUID, uuid.UUID(int=1), first.instance_id, wanted := uuid.uuid4()])
    assert held.subscribe(NO_UUID, ADDRESS, "c", 0, lambda: next(ids)).instance_id == wanted


def test_a_push_may_come_right_after_its_subscription_and_then_once_an_interval() -> None:
    held = instances()
    instance = got(held, 0)
    held.admit(push(instance), ADDRESS, "c", 1)
    with pytest.raises(ThrottlingQuotaExceeded):
        held.admit(push(instance), ADDRESS, "c", INTERVAL_MS)
    held.admit(push(instance), ADDRESS, "c", INTERVAL_MS + 1)
    assert held.counts.throttled_requests == 1


def test_the_last_push_may_come_early_and_none_follows() -> None:
    held = instances()
    instance = got(held, 0)
    held.admit(push(instance), ADDRESS, "c", 1)
    held.admit(push(instance, last=True), ADDRESS, "c", 2)
    with pytest.raises(InvalidRequest):
        held.admit(push(instance), ADDRESS, "c", 2 * INTERVAL_MS)


def test_a_subscription_that_changed_is_asked_for_at_once() -> None:
    held = instances()
    instance = got(held, 0)
    with pytest.raises(ThrottlingQuotaExceeded):
        got(held, 1, instance.instance_id)
    subscribe_all(held, 5_000)
    with pytest.raises(UnknownSubscriptionId):
        held.admit(push(instance), ADDRESS, "c", 2)
    again = got(held, 3, instance.instance_id)
    assert again.subscription_id != instance.subscription_id
    assert held.counts.unknown_subscription_requests == 1


def test_wrong_pushes_are_refused_each_in_its_way() -> None:
    held = instances()
    with pytest.raises(InvalidRequest):
        held.admit(Push(NO_UUID, 0, False, 0, 1), ADDRESS, "c", 0)
    for number, (changed, error) in enumerate(
        (
            ({"subscription_id": 5}, UnknownSubscriptionId),
            ({"compression_type": 5}, UnsupportedCompressionType),
            ({"size_bytes": MAX_BYTES + 1}, TelemetryTooLarge),
        )
    ):
        instance = got(held, number * 10_000, on=f"c{number}")
        with pytest.raises(error):
            held.admit(push(instance)._replace(**changed), ADDRESS, "c", number * 10_000 + 1)


def test_an_instance_goes_with_its_connection() -> None:
    held = instances()
    instance = got(held, 0)
    held.connection_closed("other")
    assert instance.instance_id in held
    held.connection_closed("c")
    assert instance.instance_id not in held
    got(held, 1, instance.instance_id)


def test_an_instance_that_asks_no_more_expires_after_three_intervals_or_a_minute() -> None:
    held = instances()
    short = got(held, 0, on="a")
    subscribe_all(held, 100_000)
    long = got(held, 0, on="b")
    held.expire(59_999)
    assert short.instance_id in held
    held.expire(60_000)
    assert short.instance_id not in held
    held.expire(299_999)
    assert long.instance_id in held
    held.expire(300_000)
    assert len(held) == 0


def test_of_too_many_instances_those_without_a_request_go() -> None:
    held = instances(capacity=3)
    first, second, _ = (got(held, 0, on=f"c{number}") for number in range(3))
    held.admit(push(first), ADDRESS, "c0", 1)
    for number in itertools.count(3):
        got(held, 2, on=f"c{number}")
        if number == 4:
            break
    assert len(held) == 3
    assert first.instance_id in held and second.instance_id not in held
