"""The figures of a probe: what became of each record, told by a naive model too."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.doctor.probe.figures import Delays, PartitionFigures, figures_of, percentile
from ottla.doctor.probe.topic import assignment


def test_a_record_that_was_written_and_read_counts_once_with_its_delays() -> None:
    one = PartitionFigures(0, 7)
    one.acknowledged(0, 10, sent=1.0, now=1.002)
    one.read(0, 10, now=1.010)
    one.passed(11)
    found = figures_of(7, [one], now=9.0)
    assert (found.records_produced, found.records_consumed, found.is_sound) == (1, 1, True)
    assert found.produce_delay_ms["max"] == pytest.approx(2.0)
    assert found.delay_ms["p99"] == pytest.approx(10.0)
    assert (found.produce_availability, found.consume_availability) == (1.0, 1.0)


def test_a_record_may_be_read_before_its_acknowledgement() -> None:
    one = PartitionFigures(0, 7)
    one.read(0, 10, now=1.001)
    one.passed(11)
    one.acknowledged(0, 10, sent=1.0, now=1.002)
    found = figures_of(7, [one], now=9.0)
    assert (found.records_consumed, found.records_lost, found.records_unread) == (1, 0, 0)
    assert found.delay_ms["avg"] == pytest.approx(1.0)


def test_an_acknowledged_record_that_the_reader_has_passed_is_lost() -> None:
    one = PartitionFigures(0, 7)
    one.acknowledged(0, 10, sent=1.0, now=1.0)
    one.acknowledged(1, 11, sent=1.1, now=1.1)
    one.read(1, 11, now=1.2)
    one.passed(12)
    found = figures_of(7, [one], now=9.0)
    assert (found.records_lost, found.records_consumed, found.is_sound) == (1, 1, False)
    assert found.consume_availability == 0.5


def test_a_record_that_comes_twice_is_a_duplicate() -> None:
    one = PartitionFigures(0, 7)
    one.acknowledged(0, 10, sent=1.0, now=1.0)
    one.read(0, 10, now=1.1)
    one.read(0, 11, now=1.2)
    assert figures_of(7, [one], now=9.0).records_duplicated == 1


def test_an_outage_lasts_from_the_first_failed_try_to_the_next_acknowledgement() -> None:
    one = PartitionFigures(0, 7)
    one.acknowledged(0, 0, sent=1.0, now=1.0)
    for sent in (1.1, 1.2, 4.0):
        one.failed(sent, "Connection refused")
    assert figures_of(7, [one], now=5.0).outage_seconds == pytest.approx(3.9)
    one.acknowledged(4, 1, sent=6.0, now=6.1)
    one.failed(7.0, "no leader")
    found = figures_of(7, [one], now=8.0)
    assert found.outage_seconds == pytest.approx(6.0)
    assert found.longest_outage_seconds == pytest.approx(5.0)
    assert found.produce_availability == pytest.approx(2 / 6)
    assert found.last_error == "no leader"


def test_records_of_the_last_seconds_are_not_missed_yet() -> None:
    one = PartitionFigures(0, 7)
    one.acknowledged(0, 0, sent=1.0, now=1.0)
    assert figures_of(7, [one], now=2.0).consume_availability is None
    assert figures_of(7, [one], now=20.0).consume_availability == 0.0


def test_availability_is_the_mean_of_the_partitions() -> None:
    good, bad = PartitionFigures(0, 1), PartitionFigures(1, 2)
    for number in range(10):
        good.acknowledged(number, number, sent=number, now=number)
    bad.failed(0.0, "Connection refused")
    assert figures_of(None, [good, bad], now=10.0).produce_availability == 0.5


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_a_percentile_is_a_value_that_the_share_does_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, share)
    assert found in ordered
    assert sum(1 for one in values if one <= found) >= share * len(values) - 1e-9
    assert sum(1 for one in values if one < found) < share * len(values)


def test_many_delays_are_kept_in_an_even_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.doctor.probe.figures.MOST_DELAYS", 100)
    delays = Delays()
    for number in range(10_000):
        delays.add(float(number))
    assert len(delays.kept) <= 100
    assert delays.count == 10_000 and delays.most_ms == 9_999.0
    assert statistics.mean(delays.kept) == pytest.approx(5_000, rel=0.1)


@given(
    st.lists(
        st.tuples(st.sampled_from(["written", "failed", "failed but there"]), st.booleans()), max_size=60
    )
)
def test_the_counts_are_those_of_a_naive_model(steps: list[tuple[str, bool]]) -> None:
    """Records in the order of the log; some are lost from it after their acknowledgement."""
    one = PartitionFigures(0, 7)
    log: list[tuple[int, int]] = []
    lost = written = failed = 0
    offset = 0
    for number, (outcome, is_lost) in enumerate(steps):
        if outcome == "failed":
            one.failed(float(number), "no answer")
            failed += 1
            continue
        if outcome == "written":
            one.acknowledged(number, offset, sent=float(number), now=float(number))
            written += 1
            lost += is_lost
        else:
            one.failed(float(number), "no answer")
            failed += 1
        if not is_lost:
            log.append((number, offset))
        offset += 1
    for number, at in log:
        one.read(number, at, now=100.0)
    one.passed(offset)
    found = figures_of(7, [one], now=200.0)
    assert (found.records_produced, found.produce_errors) == (written, failed)
    assert (found.records_lost, found.records_duplicated, found.records_unread) == (lost, 0, 0)
    assert found.records_consumed == written - lost


@given(st.sets(st.integers(0, 50), min_size=1, max_size=8))
def test_every_broker_leads_a_partition_and_replicas_are_spread(brokers: set[int]) -> None:
    ordered = sorted(brokers)
    assigned = [assignment(ordered, leader) for leader in ordered]
    assert [one[0] for one in assigned] == ordered
    assert all(len(set(one)) == len(one) == min(3, len(brokers)) for one in assigned)
    counts = [sum(node in one for one in assigned) for node in ordered]
    assert len(set(counts)) == 1
