"""From samples to results.json and RESULTS.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench import __main__ as command
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.report import Results, format_value, load_results, render, store_results
from bench.runner import Options, ScenarioResult, run_scenario
from bench.scenarios import SCENARIOS, Scenario, Turn
from bench.scenarios.unified_logging import SEED_TABLE
from bench.servers import System

GOLDEN = Path(__file__).with_name("golden_results.md")
MACHINE = {"processor": "abacus, 2 cores", "Python": "CPython 3.11.7"}


def unused(turn: Turn) -> dict[str, float]:
    raise AssertionError(f"not to be run: {turn}")


RATE = Scenario(
    "rate",
    "Counting beads.",
    (
        Measure("records_per_second", "records", "records/s", Target(Bound.RATIO_AT_LEAST, 1.5)),
        Measure("cpu", "broker's CPU time", "s/GB"),
    ),
    unused,
)
AGAIN = Scenario(
    "consume-100b",
    "Reading beads.",
    (
        Measure(
            "beads_per_second",
            "beads",
            "beads/s",
            Target(Bound.RATIO_AT_LEAST, 1.2),
            history="single reader of beads: 7",
        ),
        Measure("p50_ms", "p50", "ms", history="one bead, median: 2 ms"),
        Measure("p99_ms", "p99", "ms", Target(Bound.RATIO_AT_MOST, 0.8)),
    ),
    unused,
)
FIRST = Scenario("produce-100b-acks1", "Writing beads.", (replace(AGAIN.measures[0], name="rate"),), unused)
START = Scenario(
    "start",
    "Waking up.",
    (
        Measure("start_seconds", "start", "s", Target(Bound.VALUE_AT_MOST, 0.5)),
        Measure("format_seconds", "format", "s", apache_kafka_only=True),
    ),
    unused,
)
SAMPLES = {
    "rate": {
        "kafka": {"records_per_second": [600_000.0, 500_000.0, 700_000.0], "cpu": [10.0, 12.0, 8.0]},
        "ottla": {"records_per_second": [1_200_000.0, 900_000.0, 1_300_000.0], "cpu": [4.0, 5.0, 6.0]},
    },
    "start": {
        "kafka": {"start_seconds": [1.6, 1.7, 1.8], "format_seconds": [1.0, 1.1, 1.2]},
        "ottla": {"start_seconds": [0.61, 0.6, 0.59]},
    },
    # taken before the scenario had its p99
    "consume-100b": {
        "kafka": {"beads_per_second": [10.0, 11.0, 12.0], "p50_ms": [0.2, 0.2, 0.2]},
        "ottla": {"beads_per_second": [11.0, 12.0, 13.0], "p50_ms": [0.1, 0.1, 0.1]},
    },
    "produce-100b-acks1": {"kafka": {"rate": [1.0, 1.0, 1.0]}, "ottla": {"rate": [2.0, 2.0, 2.0]}},
}
SCENARIOS_OF_BEADS = {each.name: each for each in (START, RATE, AGAIN, FIRST)}


def result(name: str, *, runs: int = 3, quick: bool = False) -> ScenarioResult:
    return ScenarioResult(name, "2026-01-02T03:04:05+00:00", runs, quick, "abc1234", 0.034, SAMPLES[name])


def test_the_tables_are_as_they_were():
    # given results of all of them, one a quick look, and one taken before it had all of its measures
    taken = {name: result(name, quick=name == "start") for name in SCENARIOS_OF_BEADS}
    # then measures with a history have a table of their own, in the order of the seed's
    assert render(Results(MACHINE, taken), SCENARIOS_OF_BEADS) == GOLDEN.read_text(encoding="utf-8")


def test_without_histories_there_is_no_table_of_them():
    assert "2014" not in render(Results(MACHINE, {"rate": result("rate")}), SCENARIOS_OF_BEADS)


def test_the_results_in_the_repository_load_and_are_told():
    results = load_results(command.REPOSITORY / "bench" / "results.json")
    assert results is not None
    text = render(results, SCENARIOS)
    assert all(f"**`{name}`**" in text for name in results.scenarios if name in SCENARIOS)


def test_a_scenario_without_a_result_has_no_row():
    text = render(Results(MACHINE, {"rate": result("rate")}), {"start": START, "rate": RATE})
    assert "`rate`" in text and "`start`" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567.8, "1,234,568"),
        (100, "100"),
        (99.94, "99.9"),
        (9.994, "9.99"),
        (0.0614, "0.061"),
        (0, "0.000"),
    ],
)
def test_values_have_three_digits(value, text):
    assert format_value(value) == text


def test_results_are_stored_and_loaded_whole(tmp_path):
    results = Results(MACHINE, {"rate": result("rate")})
    store_results(tmp_path / "results.json", results)
    assert load_results(tmp_path / "results.json") == results
    assert load_results(tmp_path / "none.json") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format_version": 99}'])
def test_a_file_that_is_not_ours_is_not_overwritten(tmp_path, text):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(BenchError, match="move it away"):
        load_results(path)


def test_newer_results_replace_older_ones_and_others_stay_with_their_machine():
    older = Results(MACHINE, {"rate": result("rate"), "start": result("start")})
    newer = Results(MACHINE, {"rate": result("rate", runs=9)})
    assert {name: item.runs for name, item in older.merged_with(newer).scenarios.items()} == {
        "rate": 9,
        "start": 3,
    }
    elsewhere = Results({"processor": "slide rule"}, newer.scenarios)
    merged = older.merged_with(elsewhere)
    assert (merged.machine, merged.scenarios) == (elsewhere.machine, newer.scenarios)
    assert merged.elsewhere == (Results(MACHINE, {"start": result("start")}),)
    # and back on the first machine, the other's newer figures are its own again
    again = merged.merged_with(Results(MACHINE, {"rate": result("rate", runs=2)}))
    assert {name: item.runs for name, item in again.scenarios.items()} == {"start": 3, "rate": 2}
    assert again.elsewhere == ()


def options(directory: Path, runs: int) -> Options:
    return Options(runs=runs, quick=True, directory=directory, wait_quiet_seconds=0.0)


def test_the_sides_take_turns_each_on_a_fresh_directory(tmp_path):
    # given a scenario that writes down its turns
    turns: list[tuple[System, Path]] = []

    def run(turn: Turn) -> dict[str, float]:
        assert list(turn.workspace.iterdir()) == [] and turn.quick
        (turn.workspace / "litter").touch()
        turns.append((turn.system, turn.workspace))
        turn.other_cpu_shares.append(len(turns) / 10)
        figures = {"start_seconds": float(len(turns))}
        return figures | ({"format_seconds": 1.0} if turn.system is System.KAFKA else {})

    scenario = Scenario("start", "", START.measures, run)
    # when it is run three times a side
    taken = run_scenario(scenario, options(tmp_path, 3), "abc", lambda _: None)
    # then the sides alternated, no directory was used twice, and none is left
    assert [system for system, _ in turns] == [System.KAFKA, System.OTTLA] * 3
    assert len({workspace for _, workspace in turns}) == 6
    assert list(tmp_path.iterdir()) == []
    assert taken.samples == {
        "kafka": {"start_seconds": [1.0, 3.0, 5.0], "format_seconds": [1.0] * 3},
        "ottla": {"start_seconds": [2.0, 4.0, 6.0]},
    }
    assert taken.other_cpu_share == 0.6


def test_a_scenario_that_a_client_may_limit_has_a_third_turn_on_the_null_broker(tmp_path):
    turns: list[System] = []

    def run(turn: Turn) -> dict[str, float]:
        turns.append(turn.system)
        return {"records_per_second": float(len(turns)), "cpu": 1.0}

    scenario = Scenario("rate", "", RATE.measures, run, shows_client_limit=True)
    # when both sides are measured
    taken = run_scenario(scenario, options(tmp_path, 2), "abc", lambda _: None)
    # then the null broker is too, and told in a table of its own, as the limit of the figures with a target
    assert turns == [System.KAFKA, System.OTTLA, System.NULL] * 2
    text = render(Results(MACHINE, {"rate": taken}), {"rate": scenario})
    row = "| `rate` | records, records/s | 4.50 (3.00–6.00) | 0.56 | 0.78 |"
    assert row in text.split("### The client's limit")[1]
    assert "`rate` | broker's CPU time" not in text.split("### The client's limit")[1].split("###")[0]
    # and one side alone, to tune it, is alone
    turns.clear()
    alone = replace(options(tmp_path, 2), systems=[System.OTTLA])
    run_scenario(scenario, alone, "abc", lambda _: None)
    assert turns == [System.OTTLA] * 2


def test_a_missing_figure_is_an_error_not_a_gap(tmp_path):
    scenario = Scenario("start", "", START.measures, lambda _: {"start_seconds": 1.0})
    with pytest.raises(BenchError, match="format_seconds"):
        run_scenario(scenario, options(tmp_path, 1), "abc", lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_the_scenarios_of_the_targets_are_there():
    targeted = {name for name, item in SCENARIOS.items() if any(measure.target for measure in item.measures)}
    assert targeted >= {
        "produce-100b-acks1",
        "produce-100b-acksall",
        "produce-one-record-a-request",
        "produce-one-record-a-request-1-in-flight",
        "end-to-end-latency",
        "end-to-end-latency-java",
        "consume-100b",
        "consume-three-consumers",
        "produce-and-consume",
        "produce-record-sizes",
        "produce-partitions",
        "produce-codecs",
        "cluster-produce-three-producers",
        "produce-transactional",
        "cluster-produce-acks1",
        "cluster-produce-acksall",
        "cluster-failover",
        "cluster-2000-partitions",
        "recovery",
        "compaction",
        "start",
        "memory",
    }


def test_the_table_of_2014_is_whole():
    histories = {
        (name, measure.history)
        for name, item in SCENARIOS.items()
        for measure in item.measures
        if measure.history is not None
    }
    assert [name for name in SEED_TABLE if name not in SCENARIOS] == []
    assert {name for name, _ in histories} == set(SEED_TABLE)
    told = " ".join(history for _, history in histories)
    for figure in (
        "821,557",
        "786,980",
        "421,823",
        "2,024,032",
        "940,521",
        "2,615,968",
        "2 ms",
        "3 ms",
        "14 ms",
    ):
        assert figure in told


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))
def test_rates_are_to_be_high_and_everything_else_low(scenario):
    for measure in scenario.measures:
        if measure.target is not None and measure.target.bound is not Bound.VALUE_AT_MOST:
            least = (Bound.RATIO_AT_LEAST, Bound.VALUE_AT_LEAST)
            assert measure.more_is_better is (measure.target.bound in least), measure


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))
def test_a_scenarios_measures_have_names_of_their_own(scenario):
    names = [measure.name for measure in scenario.measures]
    titles = [(measure.title, measure.unit) for measure in scenario.measures]
    assert len(set(names)) == len(names) and len(set(titles)) == len(titles)


@pytest.mark.parametrize(("held", "verdict"), [(60.0, "yes"), (65.0, "**no**")])
def test_a_target_of_ottlas_alone_is_judged_without_kafka(held, verdict):
    target = Target(Bound.VALUE_AT_MOST, 64.0)
    measure = Measure("held", "held", "KiB", target, ottla_only=True)
    scenario = Scenario("memory", "Holding beads.", (measure,), unused)
    samples = {"kafka": {}, "ottla": {"held": [1.0, held, 99.0]}}
    result = ScenarioResult("memory", "2026-10-01T10:00:00+00:00", 3, False, "0123abc", 0.0, samples)
    told = render(Results(MACHINE, {"memory": result}), {"memory": scenario})
    assert f"| – | {format_value(held)} (1.00–99.0) | – | – | ≤ 64 KiB | {verdict} |" in told


def test_the_report_and_its_figure_are_written_together(tmp_path, monkeypatch, capsys):
    # given a scenario that counts in turns
    def run(turn: Turn) -> dict[str, float]:
        return {"records_per_second": 2.0 if turn.system is System.OTTLA else 1.0, "cpu": 1.0}

    monkeypatch.setitem(command.SCENARIOS, "rate", Scenario("rate", "", RATE.measures, run))
    # when it is run by its name
    code = command.main(["rate", "--runs", "2", "--output", str(tmp_path), "--directory", str(tmp_path)])
    # then the results, the tables and the figure that the tables show are there
    assert code == 0
    results = load_results(tmp_path / "results.json")
    assert (
        results is not None and results.scenarios["rate"].samples["ottla"]["records_per_second"] == [2.0] * 2
    )
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "(RESULTS.svg)" in text and text in capsys.readouterr().out
    assert "rate" in (tmp_path / "RESULTS.svg").read_text(encoding="utf-8")


def test_an_unknown_scenario_is_one_clear_line(capsys):
    assert command.main(["no-such"]) == 1
    assert capsys.readouterr().err.startswith("bench: no scenario is called no-such; there are: produce-100b")
    assert command.main(["profile"]) == 1
    assert command.main(["--list"]) == 0
    assert "end-to-end-latency" in capsys.readouterr().out


def test_the_figure_is_of_the_machine_with_the_most_scenarios():
    whole = Results({"processor": "a"}, {name: result(name) for name in SCENARIOS_OF_BEADS})
    latest = whole.merged_with(Results({"processor": "b"}, {"start": result("start")}))
    assert latest.machine == {"processor": "b"}
    shown = latest.largest()
    assert shown.machine == {"processor": "a"}
    assert set(shown.scenarios) == set(SCENARIOS_OF_BEADS) - {"start"}
