"""The text of a scrape: read back by Prometheus' own parser, written in slices, bounded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families

from ottla.metrics.exposition import LOOK_EVERY, SLICE_SECONDS, Exposition, Family, by_label, single
from ottla.metrics.histogram import Histogram
from ottla.metrics.metric import Kind, Metric
from ottla.metrics.tables import all_tables

SIZE = Metric("log_size", Kind.GAUGE, "Bytes of a log.", ("topic", "partition"))
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=20)
NUMBER = st.one_of(st.integers(-(2**63), 2**63), st.floats())


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.startswith("ottla_metrics_")
    }


@given(st.dictionaries(st.tuples(TEXT, st.integers(0, 99)), NUMBER, max_size=8), TEXT.filter(bool))
def test_any_labels_values_and_help_are_read_back(samples: dict[tuple[str, int], float], help: str) -> None:
    metric = Metric("log_size", Kind.GAUGE, help, ("topic", "partition"))
    exposition = Exposition([lambda: iter([Family(metric, samples.items())])])
    found = read(exposition.text())
    assert len(found) == len(samples)
    for (topic, partition), value in samples.items():
        got = found["log_size", frozenset({("topic", topic), ("partition", str(partition))})]
        assert float(got) == float(value) or (math.isnan(got) and math.isnan(value))


@given(st.dictionaries(TEXT, st.lists(st.integers(0, 10_000), min_size=1, max_size=20), max_size=4))
def test_summaries_and_histograms_are_read_back_in_both_formats(values: dict[str, list[int]]) -> None:
    distributions = {}
    for label, numbers in values.items():
        distributions[label] = made = Histogram(0.001)
        for each in numbers:
            made.observe(each)
    families = [
        Family(Metric("took", kind, "Time.", ("request",)), [((k,), v) for k, v in distributions.items()])
        for kind in (Kind.SUMMARY, Kind.HISTOGRAM)
    ]
    for family in families:
        exposition = Exposition([partial(iter, [family])])
        for open_metrics, parse in ((False, text_string_to_metric_families), (True, parse_open_metrics)):
            text = exposition.text(open_metrics=open_metrics)
            samples = [sample for found in parse(text) for sample in found.samples]
            counts = {each.labels["request"]: each.value for each in samples if each.name == "took_count"}
            assert counts == {label: len(numbers) for label, numbers in values.items()}
            sums = {each.labels["request"]: each.value for each in samples if each.name == "took_sum"}
            assert sums == pytest.approx({label: sum(numbers) / 1000 for label, numbers in values.items()})


def test_counters_without_total_are_of_unknown_type_in_open_metrics() -> None:
    counters = [Metric(name, Kind.COUNTER, "Some.") for name in ("good_total", "kafka_other_count")]
    exposition = Exposition([lambda: (single(metric, 3) for metric in counters)])
    parsed = parse_open_metrics(exposition.text(open_metrics=True))  # type: ignore[no-untyped-call]
    types = {family.name: family.type for family in parsed}
    assert types["good"] == "counter"
    assert types["kafka_other_count"] == "unknown"
    types = {family.name: family.type for family in text_string_to_metric_families(exposition.text())}
    assert types["good"] == types["kafka_other_count"] == "counter"


def test_series_over_the_cap_are_left_out_and_counted() -> None:
    metric = Metric("by_client", Kind.COUNTER, "Some.", ("client",), most_series=3)
    exposition = Exposition([lambda: iter([by_label(metric, {f"c{n}": n for n in range(10)})])])
    text = exposition.text()
    assert len(read(text)) == 3
    assert 'ottla_metrics_series_dropped{metric="by_client"} 7' in text
    assert read(text) == read(exposition.text()), "the same series stay, or counters would come and go"


def test_a_source_that_fails_is_counted_and_takes_no_other_along(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> Iterator[Family]:
        yield single(Metric("first", Kind.GAUGE, "One."), 1)
        raise RuntimeError("broken")

    exposition = Exposition([failing, lambda: iter([single(Metric("second", Kind.GAUGE, "Two."), 2)])])
    for scrape in (1, 2):
        text = exposition.text()
        assert set(read(text)) == {("first", frozenset()), ("second", frozenset())}
        assert f"ottla_metrics_source_errors_total {scrape}" in text
    assert caplog.text.count("a source of metrics failed") == 1


def test_two_sources_of_one_metric_are_a_failure_and_the_text_stays_readable() -> None:
    one = Metric("same", Kind.GAUGE, "One.")
    exposition = Exposition([lambda: iter([single(one, 1)]), lambda: iter([single(one, 2)])])
    assert read(exposition.text()) == {("same", frozenset()): 1}


class Clock:
    """A clock that stands still but for what a test lets pass."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("most_series", [100_000, 10])
def test_no_slice_holds_more_samples_than_its_time_and_one_look_at_the_clock(most_series: int) -> None:
    clock = Clock()
    per_sample = SLICE_SECONDS / 50
    metric = Metric("log_size", Kind.GAUGE, "Some.", ("topic",), most_series=most_series)
    made = 0

    def samples() -> Iterator[tuple[tuple[str], int]]:
        nonlocal made
        for number in range(5_000):
            clock.now += per_sample
            made += 1
            yield (str(number),), number

    exposition = Exposition([lambda: iter([Family(metric, samples())])])
    exposition._clock = clock
    before = slices = 0
    for _ in exposition.slices():
        assert made - before <= 50 + LOOK_EVERY
        before = made
        slices += 1
    assert made == 5_000
    assert slices >= 5_000 / (50 + LOOK_EVERY)


def test_a_source_that_walks_without_samples_breathes_at_none() -> None:
    clock = Clock()

    def walking() -> Iterator[Family | None]:
        for _ in range(100):
            clock.now += SLICE_SECONDS / 2
            yield None
        yield single(Metric("sum_of_all", Kind.GAUGE, "Some."), 100)

    exposition = Exposition([walking])
    exposition._clock = clock
    assert len(list(exposition.slices())) >= 50


def test_the_tables_hold_together() -> None:
    tables = {table.name: table for table in all_tables()}
    assert {"endpoint", "process"} <= tables.keys()
    for table in tables.values():
        assert table.title and table.metrics
        for metric in table.metrics:
            assert metric.help.endswith("."), metric.name
            assert metric.panel is None or set(metric.panel.by) <= set(metric.labels), metric.name


@pytest.mark.parametrize(
    ("name", "labels"),
    [("0bad", ()), ("a b", ()), ("good", ("le",)), ("good", ("__x",)), ("good", ("a", "a"))],
)
def test_a_metric_that_prometheus_would_refuse_can_not_be_described(
    name: str, labels: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError):
        Metric(name, Kind.GAUGE, "Help.", labels)
