"""Turn results into bench/results.json and the tables of bench/RESULTS.md."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.figures import (
    Bound,
    Comparison,
    Measure,
    Spread,
    Target,
    compare,
    spread,
    target_met,
    value_target_met,
)
from bench.runner import ScenarioResult
from bench.scenarios import Scenario
from bench.scenarios.unified_logging import SEED_TABLE
from bench.servers import BROKER_SETTINGS, KAFKA_HEAP, System

FORMAT_VERSION = 2
FIGURE_NAME = "RESULTS.svg"


@dataclass(frozen=True, slots=True)
class Results:
    """The last result of each scenario by name, taken on one machine; and those taken on others before."""

    machine: Mapping[str, str]
    scenarios: Mapping[str, ScenarioResult]
    elsewhere: tuple[Results, ...] = ()

    def merged_with(self, newer: Results) -> Results:
        """Newer results replace older ones of the same name; others stay, with the machine they are of."""
        if self.machine == newer.machine:
            return Results(
                self.machine, {**self.scenarios, **newer.scenarios}, _without(self.elsewhere, newer.scenarios)
            )
        older = (Results(self.machine, self.scenarios), *self.elsewhere)
        again = [each for each in older if each.machine == newer.machine]
        scenarios = {**(again[0].scenarios if again else {}), **newer.scenarios}
        others = [each for each in older if each.machine != newer.machine]
        return Results(newer.machine, scenarios, _without(others, newer.scenarios))

    def largest(self) -> Results:
        """The results of the machine with the most scenarios, for the figure; of equals, the latest."""
        every = (Results(self.machine, self.scenarios), *self.elsewhere)
        return max(every, key=lambda each: len(each.scenarios))


def _without(older: Iterable[Results], names: Container[str]) -> tuple[Results, ...]:
    """The older results without these scenarios, and without machines that have no results left."""
    kept = (
        Results(each.machine, {name: item for name, item in each.scenarios.items() if name not in names})
        for each in older
    )
    return tuple(each for each in kept if each.scenarios)


def load_results(path: Path) -> Results | None:
    """The results in a results.json, None if there is no such file. Raises BenchError for any other file."""
    if not path.exists():
        return None
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document["format_version"] != FORMAT_VERSION:
            raise ValueError(f"format_version {document['format_version']}")
        newest, *elsewhere = [
            Results(each["machine"], {item["name"]: ScenarioResult(**item) for item in each["scenarios"]})
            for each in document["machines"]
        ]
        return dataclasses.replace(newest, elsewhere=tuple(elsewhere))
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{path} is not a results file ({error}): move it away") from error


def store_results(path: Path, results: Results) -> None:
    document = {
        "format_version": FORMAT_VERSION,
        "machines": [
            {
                "machine": dict(each.machine),
                "scenarios": [dataclasses.asdict(result) for result in each.scenarios.values()],
            }
            for each in (results, *results.elsewhere)
        ],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def render(results: Results, scenarios: Mapping[str, Scenario]) -> str:
    """The whole of RESULTS.md, the latest machine first; it shows the figure that lies beside it."""
    parts = [_INTRODUCTION, _FIGURE, _settings_text()]
    for each in (results, *results.elsewhere):
        parts += _render_machine(each, scenarios)
    return "\n".join(parts)


def _render_machine(results: Results, scenarios: Mapping[str, Scenario]) -> list[str]:
    taken = [scenario for name, scenario in scenarios.items() if name in results.scenarios]
    with_history: list[tuple[str, ...]] = []
    with_target: list[tuple[str, ...]] = []
    without_target: list[tuple[str, ...]] = []
    for scenario in sorted(taken, key=_place_in_the_seeds_table):
        for measure in scenario.measures:
            if measure.history is not None:
                row = _row(scenario, measure, results.scenarios[scenario.name])
                with_history.append((*row, *([""] * (len(_TARGET_HEADER) - len(row))), measure.history))
    for scenario in taken:
        for measure in scenario.measures:
            if measure.history is None:
                row = _row(scenario, measure, results.scenarios[scenario.name])
                (without_target if measure.target is None else with_target).append(row)
    parts = [_machine_table(results.machine)]
    if with_history:
        parts += [_HISTORY, _table((*_TARGET_HEADER, "as history: 2014"), with_history)]
    parts += ["### Targets\n", _table(_TARGET_HEADER, with_target)]
    if limits := _limit_rows(taken, results):
        parts += [_LIMIT, _table(_LIMIT_HEADER, limits)]
    if without_target:
        parts += ["### For information\n", _table(_HEADER, without_target)]
    parts += [
        "### How each was taken\n",
        *(_how(scenario, results.scenarios[scenario.name]) for scenario in taken),
    ]
    return parts


def _limit_rows(taken: Iterable[Scenario], results: Results) -> list[tuple[str, ...]]:
    """The measures with a target that were taken on the null broker too, with both sides' share of it."""
    rows = []
    for scenario in taken:
        samples = results.scenarios[scenario.name].samples
        for measure in scenario.measures:
            limit = samples.get(System.NULL.value, {}).get(measure.name)
            comparison = comparison_of(measure, results.scenarios[scenario.name])
            if limit is None or comparison is None or measure.target is None:
                continue
            of_limit = spread(limit)
            rows.append(
                (
                    f"`{scenario.name}`",
                    f"{measure.title}, {measure.unit}",
                    format_spread(of_limit),
                    f"{comparison.kafka.median / of_limit.median:.2f}",
                    f"{comparison.ottla.median / of_limit.median:.2f}",
                )
            )
    return rows


def _place_in_the_seeds_table(scenario: Scenario) -> int:
    return SEED_TABLE.index(scenario.name) if scenario.name in SEED_TABLE else len(SEED_TABLE)


_INTRODUCTION = """# ottla beside Apache Kafka

Written by `python -m bench`; the raw samples are in [results.json](results.json). Each scenario runs on
Apache Kafka and on ottla in turns, one broker at a time on the machine, each time on a fresh directory of
the same volume, driven by the same client with the same command line. A cell holds the median of the runs,
and in parentheses the smallest and the largest. A ratio is ottla's figure over Kafka's, told twice: of the
two medians, and the median of the ratios of neighbouring runs (a machine's mood drifts, and neighbours share
it). A target on a ratio counts as met only when both meet it. Figures of different machines are not to be
compared; each has its section.
"""
_FIGURE = f"![The ratios, as bars, of the machine with the most scenarios]({FIGURE_NAME})\n"
_HISTORY = """### The benchmark of 2014, again

The table of the unified-logging seed, with its own figures beside, as history: records of 100 bytes on three
machines of six cores each (Intel Xeon, 2.5 GHz, six disks of 7,200 RPM, 32 GB, 1 Gb Ethernet), the clients on
three more. Here brokers and clients share one machine.
"""
_LIMIT = """### The client's limit

The same clients on a broker that does nothing (bench/null_broker.py: requests are counted and answered, no
record is checked, written or read). It takes processor time from its clients all the same. A side near 1 is
limited by its client, not by its broker.
"""
_LIMIT_HEADER = ("scenario", "measure", "null broker", "Apache Kafka 4.3.1 over it", "ottla over it")
_HEADER = (
    "scenario",
    "measure",
    "Apache Kafka",
    "ottla",
    "ratio of medians",
    "median of pairs' ratios",
)
_TARGET_HEADER = (*_HEADER, "target", "met")


def comparison_of(measure: Measure, result: ScenarioResult) -> Comparison | None:
    """None for what Kafka alone does, and for a measure that the scenario did not have when it was taken."""
    kafka = result.samples[System.KAFKA.value].get(measure.name)
    ottla = result.samples[System.OTTLA.value].get(measure.name)
    return None if kafka is None or ottla is None else compare(kafka, ottla)


def _row(scenario: Scenario, measure: Measure, result: ScenarioResult) -> tuple[str, ...]:
    begin = (f"`{scenario.name}`", f"{measure.title}, {measure.unit}")
    comparison = comparison_of(measure, result)
    if comparison is None:
        kafka = result.samples[System.KAFKA.value].get(measure.name)
        ottla = result.samples[System.OTTLA.value].get(measure.name)
        sides = ["–" if side is None else format_spread(spread(side)) for side in (kafka, ottla)]
        row = (*begin, *(sides if kafka or ottla else ("not taken", "–")), "–", "–")
        if measure.target is None:
            return row
        alone = None if ottla is None else value_target_met(measure.target, spread(ottla))
        verdict = "–" if alone is None else _verdict(alone)
        return (*row, format_target(measure.target, measure.unit), verdict)
    row = (
        *begin,
        format_spread(comparison.kafka),
        format_spread(comparison.ottla),
        f"{comparison.ratio_of_medians:.2f}",
        f"{comparison.median_of_pair_ratios:.2f}",
    )
    if measure.target is None:
        return row
    verdict = _verdict(target_met(measure.target, comparison))
    return (*row, format_target(measure.target, measure.unit), verdict)


def _verdict(met: bool) -> str:
    return "yes" if met else "**no**"


def format_target(target: Target, unit: str) -> str:
    suffix = f" {unit}" if target.bound in (Bound.VALUE_AT_MOST, Bound.VALUE_AT_LEAST) else ""
    return f"{target.bound.value} {target.limit:,g}{suffix}"


def format_spread(figures: Spread) -> str:
    return f"{format_value(figures.median)} ({format_value(figures.minimum)}–{format_value(figures.maximum)})"


def format_value(value: float) -> str:
    """Three significant digits below a thousand, whole numbers above."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    decimals = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{decimals}f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _machine_table(machine: Mapping[str, str]) -> str:
    return "## Machine\n\n" + _table(("fact", "value"), list(machine.items()))


def _settings_text() -> str:
    settings = ", ".join(f"`{name}={value}`" for name, value in BROKER_SETTINGS.items())
    return (
        f"Apache Kafka runs as one combined node with a heap of {KAFKA_HEAP} and the garbage collector's "
        f"flags of its own start script. Both brokers get {settings}; the rest is each one's default, the "
        f"same on both sides.\n"
    )


def _how(scenario: Scenario, result: ScenarioResult) -> str:
    quick = " A quick look: a fifth of the counted records." if result.quick else ""
    peer = f" beside Apache Kafka {result.kafka_version}" if System.KAFKA.value in result.samples else ""
    return (
        f"**`{scenario.name}`**: {scenario.method}{quick} {result.runs} runs a side{peer}, taken "
        f"{result.taken_at} at commit {result.commit}; other programs took at most "
        f"{result.other_cpu_share:.0%} of one core.\n"
    )
