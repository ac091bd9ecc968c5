"""The figure of the ratios."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from bench.figures import Bound, Measure, Target
from bench.plot import bars, draw
from bench.report import Results
from bench.runner import ScenarioResult
from bench.scenarios import Scenario, Turn

MACHINE = {"processor": "abacus, 2 cores", "memory": "3 drawers", "data volume": "a shelf"}


def unused(turn: Turn) -> dict[str, float]:
    raise AssertionError(f"not to be run: {turn}")


BEADS = Scenario(
    "beads",
    "",
    (
        Measure("seconds", "first bead", "s", Target(Bound.RATIO_AT_MOST, 0.8)),
        Measure("rate", "beads counted", "beads/s", Target(Bound.RATIO_AT_LEAST, 1.2)),
        Measure("cost", "beads worn", "beads"),
        Measure("size", "abacus", "MiB", Target(Bound.VALUE_AT_MOST, 2.0)),
        Measure("polish", "polishing", "s", apache_kafka_only=True),
        Measure("dust", "dust", "s/GB"),
        Measure("later", "measured since", "s"),
    ),
    unused,
)
SAMPLES = {
    "kafka": {
        "seconds": [1.0, 1.0, 1.0],
        "rate": [10.0, 10.0, 10.0],
        "cost": [4.0, 4.0, 4.0],
        "size": [8.0, 8.0, 8.0],
        "polish": [1.0, 1.0, 1.0],
        "dust": [1.0, 1.0, 1.0],
    },
    "ottla": {
        "seconds": [0.5, 0.4, 0.8],
        "rate": [11.0, 10.0, 13.0],
        "cost": [8.0, 8.0, 8.0],
        "size": [1.0, 1.0, 1.0],
        "dust": [0.0, 0.1, 0.1],
    },
}


def results(*, quick: bool = False) -> Results:
    taken = ScenarioResult("beads", "2026-01-02T03:04:05+00:00", 3, quick, "abc1234", 0.0, SAMPLES)
    return Results(MACHINE, {"beads": taken})


def test_a_bar_is_longer_the_better_ottla_is_and_bars_stand_by_kind():
    rate, seconds, size, cost = bars(results(), {"beads": BEADS})
    # rates as they are
    assert (rate.kind, rate.advantage, rate.worst, rate.best) == ("Throughput", 1.1, 1.0, 1.3)
    assert (rate.target, rate.met) == (1.2, False)
    assert rate.figures == "10.0 → 11.0 beads/s"
    # times upside down, and the target too
    assert (seconds.kind, seconds.advantage, seconds.worst, seconds.best) == ("Times", 2.0, 1.25, 2.5)
    assert (seconds.target, seconds.met) == (1.25, True)
    # a target that is a value stands where that value would be
    assert (size.kind, size.advantage, size.target, size.met) == ("Memory", 8.0, 4.0, True)
    # and a unit that no kind is known for goes last; what has no ratio has no bar
    assert (cost.kind, cost.advantage, cost.target, cost.met) == ("Other", 0.5, None, None)


def test_a_quick_look_is_called_one():
    assert {bar.scenario for bar in bars(results(quick=True), {"beads": BEADS})} == {"beads (quick look)"}
    assert {bar.scenario for bar in bars(results(), {"beads": BEADS})} == {"beads"}


def test_the_figure_names_machine_and_bars_and_is_the_same_every_time(tmp_path):
    found = bars(results(), {"beads": BEADS})
    for name in ("one.svg", "two.svg"):
        draw(found, MACHINE, tmp_path / name)
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "two.svg").read_text(encoding="utf-8")
    words = [
        element.text for element in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "abacus, 2 cores; 3 drawers" in words
    for bar in found:
        assert bar.measure in words and bar.figures in words
    assert words.count("beads") == len({bar.kind for bar in found})
    assert "1.10×" in words and "8.00×" in words
    assert "<dc:date>" not in text


@pytest.mark.parametrize("found", [[], None])
def test_a_figure_of_nothing_is_still_a_figure(tmp_path, found):
    draw(found or bars(Results(MACHINE, {}), {"beads": BEADS}), MACHINE, tmp_path / "none.svg")
    assert "abacus" in (tmp_path / "none.svg").read_text(encoding="utf-8")
