"""The arithmetic of a program's course: what is start, what is steady, what is too little to tell."""

from __future__ import annotations

import pytest
from bench.errors import BenchError
from bench.figures import Measure
from bench.pipeline_clients.watching import Course, Step, figures


def course(*steps: tuple[float, int, float]) -> Course:
    return Course(100.0, tuple(Step(*step) for step in steps), 512 << 20)


def test_the_rate_leaves_the_first_quarter_out() -> None:
    # given: a slow start, then 100 records a second for 0.01 s of processor time each
    found = figures(
        course(
            (110.0, 10, 5.0),
            (120.0, 100, 9.0),
            (121.0, 200, 10.0),
            (122.0, 300, 11.0),
            (122.5, 350, 11.5),
            (123.0, 400, 12.0),
        )
    )
    # then
    assert found["records_per_second"] == pytest.approx(100)
    assert found["cpu_seconds_per_million"] == pytest.approx(10_000)
    assert found["start_seconds"] == pytest.approx(10)
    assert found["whole_records_per_second"] == pytest.approx(400 / 23)
    assert found["peak_mebibytes"] == 512


def test_two_or_three_batches_are_no_rate() -> None:
    with pytest.raises(BenchError, match="2 commits after the first quarter"):
        figures(course((110.0, 100, 1.0), (111.0, 300, 2.0), (112.0, 400, 3.0)))


def test_a_measure_may_be_one_sides_alone() -> None:
    both, kafkas, ottlas = (
        Measure("a", "a", "s"),
        Measure("b", "b", "s", apache_kafka_only=True),
        Measure("c", "c", "s", ottla_only=True),
    )
    assert [each.name for each in (both, kafkas, ottlas) if each.is_of(ottla=True)] == ["a", "c"]
    assert [each.name for each in (both, kafkas, ottlas) if each.is_of(ottla=False)] == ["a", "b"]
