"""What clients may use: rates, token buckets, which limit holds. Times are those of a steady clock."""

from __future__ import annotations

import itertools
import random
import tracemalloc

import pytest

from ottla.core.quotas.address_rates import AddressRates
from ottla.core.quotas.client_quotas import MutationQuotas, RateQuotas
from ottla.core.quotas.counts import LOOKED_AT, MAX_COUNTS
from ottla.core.quotas.entities import (
    ClientEntity,
    ClientLimit,
    ClientLimits,
    CountKey,
    Unnamed,
    client_limits,
    ip_limits,
)

DEFAULT, ABSENT = Unnamed.DEFAULT, Unnamed.ABSENT
START_MS = 5_000

BY_PRECEDENCE = [
    (ClientEntity("alice", "app"), CountKey("alice", "app")),
    (ClientEntity("alice", DEFAULT), CountKey("alice", "app")),
    (ClientEntity("alice", ABSENT), CountKey("alice", None)),
    (ClientEntity(DEFAULT, "app"), CountKey("alice", "app")),
    (ClientEntity(DEFAULT, DEFAULT), CountKey("alice", "app")),
    (ClientEntity(DEFAULT, ABSENT), CountKey("alice", None)),
    (ClientEntity(ABSENT, "app"), CountKey(None, "app")),
    (ClientEntity(ABSENT, DEFAULT), CountKey(None, "app")),
]
ELSEWHERE = [
    ClientEntity("bob", "app"),
    ClientEntity("alice", "batch"),
    ClientEntity("bob", ABSENT),
    ClientEntity(DEFAULT, "batch"),
    ClientEntity(ABSENT, "alice"),
]


@pytest.mark.parametrize("present", list(itertools.product((False, True), repeat=8)))
def test_the_most_specific_quota_holds(present: tuple[bool, ...]) -> None:
    limits = dict.fromkeys(ELSEWHERE, 99.0)
    expected = None
    for number, ((entity, key), there) in enumerate(zip(BY_PRECEDENCE, present, strict=True)):
        if there:
            limits[entity] = float(number + 1)
            expected = expected or ClientLimit(key, float(number + 1))
    assert ClientLimits(limits).find("alice", "app") == expected


def test_default_quotas_hold_for_clients_without_a_client_id() -> None:
    limits = ClientLimits({ClientEntity(ABSENT, DEFAULT): 7.0})
    assert limits.find("alice", "") == ClientLimit(CountKey(None, ""), 7.0)


def test_the_quotas_of_the_metadata_are_told_apart_by_key_and_entity() -> None:
    quotas = {
        (("client-id", None), ("user", "alice")): {"producer_byte_rate": 1.0, "request_percentage": 50.0},
        (("client-id", "app"),): {"producer_byte_rate": 2.0},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 3.0},
        (("ip", None),): {"connection_creation_rate": 4.0},
        (("ip", "10.0.0.1"), ("user", "alice")): {"producer_byte_rate": 5.0, "connection_creation_rate": 5.0},
        (("planet", "mars"),): {"producer_byte_rate": 6.0},
    }
    produce = client_limits(quotas, "producer_byte_rate")
    assert produce == ClientLimits({ClientEntity("alice", DEFAULT): 1.0, ClientEntity(ABSENT, "app"): 2.0})
    assert client_limits(quotas, "request_percentage") == ClientLimits({ClientEntity("alice", DEFAULT): 50.0})
    assert not client_limits(quotas, "consumer_byte_rate")
    assert dict(ip_limits(quotas)) == {"10.0.0.1": 3.0, None: 4.0}


def limited(
    entity: ClientEntity, limit: float, *, samples: int = 11, longest_ms: int = 2**31 - 1
) -> RateQuotas:
    quotas = RateQuotas(samples, 1000, longest_ms)
    quotas.set_limits(ClientLimits({entity: limit}))
    return quotas


ALICE = ClientEntity("alice", ABSENT)


def test_ten_seconds_of_quota_may_come_at_once() -> None:
    quotas = limited(ALICE, 100.0)
    assert quotas.most_at_once("alice", "app") == 1000.0
    assert quotas.record("alice", "app", 1000.0, START_MS) == 0
    assert quotas.record("alice", "app", 100.0, START_MS) == 1000  # one more second's worth: wait that second


def test_all_connections_of_a_user_share_its_quota() -> None:
    quotas = limited(ALICE, 100.0)
    assert quotas.record("alice", "app", 1000.0, START_MS) == 0
    assert quotas.record("alice", "batch", 100.0, START_MS) > 0
    assert quotas.record("bob", "app", 10**9, START_MS) == 0
    assert quotas.most_at_once("bob", "app") is None


def test_a_client_that_waits_for_its_throttle_time_keeps_to_its_quota() -> None:
    """Drawn amounts over ten minutes: behind the first burst, the bytes that pass are those of the quota."""
    rng = random.Random(20)
    quotas = limited(ALICE, 10_000.0)
    now_ms, passed, behind_burst_ms = START_MS, 0.0, START_MS + 12_000
    while now_ms < START_MS + 600_000:
        amount = rng.choice((100.0, 5_000.0, 30_000.0)) * rng.random()
        throttle_ms = quotas.record("alice", "app", amount, now_ms)
        if now_ms >= behind_burst_ms:
            passed += amount
        now_ms += max(1, throttle_ms)
    assert passed / ((now_ms - behind_burst_ms) / 1000) == pytest.approx(10_000.0, rel=0.02)


def test_a_rate_that_was_taken_back_throttles_nobody() -> None:
    quotas = limited(ALICE, 100.0)
    assert quotas.record("alice", "app", 5000.0, START_MS) > 0
    quotas.take_back("alice", "app", 5000.0, START_MS)
    assert quotas.record("alice", "app", 1000.0, START_MS) == 0


def test_the_throttle_of_request_time_is_bounded_by_one_window() -> None:
    quotas = limited(ALICE, 1.0, longest_ms=1000)
    assert quotas.record("alice", "app", 10**6, START_MS) == 1000


def test_a_throttle_time_fits_into_an_answer() -> None:
    assert limited(ALICE, 1e-9).record("alice", "app", 1e18, START_MS) == 2**31 - 1


def test_a_lowered_quota_counts_earlier_amounts_and_a_removed_one_forgets_them() -> None:
    quotas = limited(ALICE, 100.0)
    assert quotas.enabled
    assert quotas.record("alice", "app", 1000.0, START_MS) == 0
    quotas.set_limits(ClientLimits({ALICE: 50.0}))
    assert quotas.record("alice", "app", 0.0, START_MS) > 0
    quotas.set_limits(ClientLimits({}))
    assert not quotas.enabled and len(quotas) == 0
    quotas.set_limits(ClientLimits({ALICE: 50.0}))
    assert quotas.record("alice", "app", 500.0, START_MS) == 0


def test_a_quota_that_comes_and_goes_leaves_the_counts_of_less_specific_ones() -> None:
    everyone = ClientEntity(ABSENT, DEFAULT)
    quotas = limited(everyone, 100.0)
    assert quotas.record("alice", "app", 5000.0, START_MS) > 0
    quotas.set_limits(ClientLimits({everyone: 100.0, ClientEntity(DEFAULT, ABSENT): 1e9}))
    assert quotas.record("alice", "app", 0.0, START_MS) == 0
    quotas.set_limits(ClientLimits({everyone: 100.0}))
    assert quotas.record("alice", "app", 0.0, START_MS) > 0


@pytest.mark.parametrize("number", range(len(BY_PRECEDENCE)))
def test_a_count_stays_as_long_as_a_limit_asks_for_it(number: int) -> None:
    entity, key = BY_PRECEDENCE[number]
    assert ClientLimits({entity: 7.0}).limit_of(key) == 7.0
    for other, other_key in BY_PRECEDENCE:
        assert (ClientLimits({other: 7.0}).limit_of(key) is not None) == (other_key == key)


def mutations(limit: float) -> MutationQuotas:
    quotas = MutationQuotas(11, 1000)
    quotas.set_limits(ClientLimits({ALICE: limit}))
    return quotas


def test_a_large_change_passes_and_the_next_waits_until_its_debt_is_paid() -> None:
    quotas = mutations(5.0)
    assert quotas.admit("alice", "app", 80, START_MS) == 0  # 55 tokens are there
    assert quotas.admit("alice", "app", 1, START_MS) == 5000
    assert quotas.admit("alice", "app", 1, START_MS + 4999) == 1
    assert quotas.admit("alice", "app", 1, START_MS + 5000) == 0
    assert quotas.admit("bob", "app", 10**6, START_MS) == 0


def test_a_refused_change_takes_no_tokens_and_a_permitted_one_does() -> None:
    quotas = mutations(5.0)
    assert quotas.record("alice", "app", 60, START_MS) == 1000
    assert quotas.record("alice", "app", 5, START_MS) == 2000
    assert quotas.admit("alice", "app", 5, START_MS) == 2000
    assert quotas.admit("alice", "app", 5, START_MS) == 2000


def test_a_bucket_holds_no_more_than_its_windows() -> None:
    quotas = mutations(5.0)
    assert quotas.record("alice", "app", 55, START_MS + 10**9) == 0
    assert quotas.record("alice", "app", 55, START_MS + 10**9 + 10**7) == 0
    assert quotas.record("alice", "app", 1, START_MS + 10**9 + 10**7) == 200


@pytest.mark.parametrize("kind", ["rates", "mutations"])
def test_random_client_ids_grow_nothing_without_bound(kind: str) -> None:
    everyone = ClientLimits({ClientEntity(ABSENT, DEFAULT): 100.0})
    quotas = RateQuotas(11, 1000) if kind == "rates" else MutationQuotas(11, 1000)
    quotas.set_limits(everyone)
    for number in range(30_000):  # all of them at once
        quotas.record("alice", f"client-{number}", 1100.0, START_MS)
    assert len(quotas) == MAX_COUNTS
    assert quotas.record("alice", "client-29999", 200.0, START_MS) > 0  # those that came last still count


def test_the_count_of_a_client_that_came_once_is_small() -> None:
    quotas = RateQuotas(11, 1000)
    quotas.set_limits(ClientLimits({ClientEntity(ABSENT, DEFAULT): 100.0}))
    tracemalloc.start()
    for number in range(1000):
        quotas.record("alice", f"client-{number}", 1000.0, START_MS)
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size_bytes < 1000 * 700


@pytest.mark.parametrize("kind", ["rates", "mutations"])
def test_counts_that_nobody_needs_any_more_go_when_others_come(kind: str) -> None:
    quotas = RateQuotas(11, 1000) if kind == "rates" else MutationQuotas(11, 1000)
    quotas.set_limits(ClientLimits({ClientEntity(ABSENT, DEFAULT): 100.0}))
    for number in range(1000):
        quotas.record("alice", f"early-{number}", 1.0, START_MS)
    for number in range(1000):
        quotas.record("alice", f"late-{number}", 1.0, START_MS + 60_000)
    assert len(quotas) <= 1000 + LOOKED_AT


# -- connections of an address -------------------------------------------------------------------------


def test_connections_beyond_an_addresss_rate_are_early_and_do_not_count() -> None:
    rates = AddressRates(11, 1000)
    rates.set_limits({"10.0.0.1": 2.0}, default=None)
    for _ in range(20):  # those of ten seconds may come at once
        assert rates.count("10.0.0.1", START_MS) == 0
    for _ in range(100):
        assert rates.count("10.0.0.1", START_MS) == 500
    assert rates.count("10.0.0.1", START_MS + 499) > 0
    assert rates.count("10.0.0.1", START_MS + 500) == 0
    assert rates.count("10.0.0.2", START_MS) == 0 and len(rates) == 1


def test_other_addresses_have_the_default_rate_each() -> None:
    rates = AddressRates(11, 1000)
    rates.set_limits({"10.0.0.1": 2.0}, default=0.1)
    assert [rates.count("10.0.0.2", START_MS) for _ in range(2)] == [0, 1000]
    assert rates.count("10.0.0.3", START_MS) == 0
    assert [rates.count("10.0.0.1", START_MS) for _ in range(3)] == [0, 0, 0]
    rates.set_limits({}, default=None)
    assert rates.count("10.0.0.2", START_MS) == 0 and len(rates) == 0
