"""Draw the ratios of a set of results as one figure, bench/RESULTS.svg.

A bar goes from 1 (as good as Apache Kafka) to the median of the pairs' ratios, turned so that further right
is always better for ottla: rates as they are, times and costs inverted. Whiskers go to the best and the worst
pair, a tick marks the target. The file is the same for the same results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.figures import Bound, Comparison, Measure, Target, target_met
from bench.report import Results, comparison_of, format_value
from bench.scenarios import Scenario

# How a group of bars is called, by the unit of what it shows, in the order of the figure.
KINDS = ("Throughput", "Times", "Processor time", "Memory", "Other")
_KIND_BY_UNIT = {
    "s": "Times",
    "ms": "Times",
    "s/GB": "Processor time",
    "us a request": "Processor time",
    "% of a core": "Processor time",
    "MiB": "Memory",
}

MET, MISSED, PLAIN = "#2f7d4f", "#c2452d", "#8a9bb0"
INK, FAINT, GRID, GOLD = "#1f2933", "#66717e", "#e3e8ed", "#e0a100"
WIDTH_INCHES, ROW_INCHES = 11.5, 0.2
HEADER_INCHES, HEADING_INCHES, GAP_INCHES, FOOTER_INCHES = 0.95, 0.42, 0.2, 0.45
# Where the columns are, as shares of the width: scenario, measure (its right end), bars, figures.
SCENARIO_AT, MEASURE_AT, BARS_AT, BARS_TO, FIGURES_AT = 0.015, 0.44, 0.45, 0.82, 0.83
TICKS = (0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500)
_STYLE = {
    "svg.hashsalt": "ottla",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "text.color": INK,
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One measure of one scenario: how many times better ottla is, in the middle, at worst and at best.

    target: the advantage that is asked for, None without one. met: None without a target.
    """

    kind: str
    scenario: str
    measure: str
    advantage: float
    worst: float
    best: float
    target: float | None
    met: bool | None
    figures: str


def bars(results: Results, scenarios: Mapping[str, Scenario]) -> list[Bar]:
    """The bars of one machine, kind by kind and in the scenarios' order.

    What has no ratio has no bar: a step of Kafka alone, a cost too small to be measured.
    """
    found = []
    for name, scenario in scenarios.items():
        result = results.scenarios.get(name)
        if result is None:
            continue
        for measure in scenario.measures:
            comparison = comparison_of(measure, result)
            if comparison is not None and comparison.pair_ratios.minimum > 0:
                shown = f"{name} (quick look)" if result.quick else name
                found.append(_bar(shown, measure, comparison))
    return sorted(found, key=lambda bar: KINDS.index(bar.kind))


def _bar(scenario: str, measure: Measure, comparison: Comparison) -> Bar:
    ratios = comparison.pair_ratios
    advantages = (ratios.minimum, ratios.median, ratios.maximum)
    if not measure.more_is_better:
        advantages = (1 / ratios.maximum, 1 / ratios.median, 1 / ratios.minimum)
    worst, middle, best = advantages
    target = measure.target
    return Bar(
        kind="Throughput" if measure.more_is_better else _KIND_BY_UNIT.get(measure.unit, "Other"),
        scenario=scenario,
        measure=measure.title,
        advantage=middle,
        worst=worst,
        best=best,
        target=None if target is None else _wanted_advantage(target, comparison),
        met=None if target is None else target_met(target, comparison),
        figures=f"{format_value(comparison.kafka.median)} → {format_value(comparison.ottla.median)} "
        f"{measure.unit}",
    )


def _wanted_advantage(target: Target, comparison: Comparison) -> float:
    match target.bound:
        case Bound.RATIO_AT_LEAST:
            return target.limit
        case Bound.RATIO_AT_MOST:
            return 1 / target.limit
        case Bound.VALUE_AT_MOST:
            return comparison.kafka.median / target.limit
        case Bound.VALUE_AT_LEAST:
            return target.limit / comparison.kafka.median


def draw(found: Sequence[Bar], machine: Mapping[str, str], path: Path) -> None:
    """Write the figure as SVG."""
    with matplotlib.rc_context(_STYLE):
        figure = _figure(found, machine)
        FigureCanvasSVG(figure)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": "python -m bench"})


def _figure(found: Sequence[Bar], machine: Mapping[str, str]) -> Figure:
    groups = [(kind, [bar for bar in found if bar.kind == kind]) for kind in KINDS]
    groups = [(kind, members) for kind, members in groups if members]
    inches = HEADER_INCHES + FOOTER_INCHES
    inches += sum(HEADING_INCHES + len(members) * ROW_INCHES + GAP_INCHES for _, members in groups)
    figure = Figure(figsize=(WIDTH_INCHES, inches), facecolor="white")
    _write_header(figure, inches, machine)
    top = inches - HEADER_INCHES
    for kind, members in groups:
        top -= HEADING_INCHES
        height = len(members) * ROW_INCHES
        place = (BARS_AT, (top - height) / inches, BARS_TO - BARS_AT, height / inches)
        figure.text(SCENARIO_AT, (top + 0.12) / inches, kind, size=10, weight="bold", va="center")
        _draw_group(figure.add_axes(place, facecolor="none"), members)
        top -= height + GAP_INCHES
    figure.legend(handles=_legend(), loc="lower center", ncols=5, frameon=False, fontsize=8)
    return figure


def _write_header(figure: Figure, inches: float, machine: Mapping[str, str]) -> None:
    lines = (
        (0.28, 14, INK, "bold", "ottla beside Apache Kafka 4.4.0"),
        (
            *(0.57, 8.5, FAINT, "normal"),
            "How many times better ottla is: the median of the ratios of neighbouring runs. Further right is "
            "better for ottla. On the right the medians: Kafka's → ottla's.",
        ),
        (0.76, 8.5, FAINT, "normal", _machine_words(machine)),
    )
    for from_top, size, color, weight, words in lines:
        y = 1 - from_top / inches
        figure.text(SCENARIO_AT, y, words, size=size, color=color, weight=weight, va="center")


def _draw_group(axes: Axes, members: Sequence[Bar]) -> None:
    """The bars of one kind, on a scale of their own."""
    axes.set_xscale("log")
    low = min(min(bar.worst, bar.target or 1.0) for bar in members)
    high = max(max(bar.best, bar.target or 1.0) for bar in members)
    axes.set_xlim(min(0.8, low / 1.1), max(2.0, high * (high / low) ** 0.16))
    axes.set_ylim(len(members), 0)
    axes.xaxis.set_major_locator(FixedLocator(TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", length=0, labelcolor=FAINT, labelsize=7.5)
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.grid(axis="x", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.axvline(1.0, color=INK, linewidth=1.0, zorder=3)
    scenario = None
    for index, bar in enumerate(members):
        _draw_bar(axes, bar, index + 0.5)
        if bar.scenario != scenario:
            scenario = bar.scenario
            _begin_scenario(axes, scenario, index)


def _begin_scenario(axes: Axes, scenario: str, row: int) -> None:
    """Its name, and a line above it."""
    beside = axes.get_yaxis_transform()
    axes.text(_beside(SCENARIO_AT), row + 0.5, scenario, transform=beside, va="center")
    ends = [_beside(SCENARIO_AT), _beside(1 - SCENARIO_AT)]
    axes.plot(ends, [row, row], transform=beside, color=GRID, linewidth=0.6, clip_on=False, zorder=0)


def _beside(share_of_width: float) -> float:
    """A place on the figure's width, counted in widths of the bars' column from its left end."""
    return (share_of_width - BARS_AT) / (BARS_TO - BARS_AT)


def _draw_bar(axes: Axes, bar: Bar, y: float) -> None:
    color = PLAIN if bar.met is None else MET if bar.met else MISSED
    axes.barh(y, bar.advantage - 1.0, left=1.0, height=0.64, color=color, zorder=2)
    axes.plot([bar.worst, bar.best], [y, y], color=INK, linewidth=0.9, solid_capstyle="butt", zorder=4)
    for end in (bar.worst, bar.best):
        axes.plot([end, end], [y - 0.15, y + 0.15], color=INK, linewidth=0.9, zorder=4)
    if bar.target is not None:
        axes.plot([bar.target, bar.target], [y - 0.44, y + 0.44], color=GOLD, linewidth=2.0, zorder=5)
    axes.annotate(
        f"{bar.advantage:.{1 if bar.advantage >= 9.95 else 2}f}×",
        (max(bar.best, bar.target or 0.0, 1.0), y),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        size=7.5,
        weight="bold",
    )
    beside = axes.get_yaxis_transform()
    axes.text(_beside(MEASURE_AT), y, bar.measure, transform=beside, ha="right", va="center", color=FAINT)
    axes.text(_beside(FIGURES_AT), y, bar.figures, transform=beside, va="center", size=7.5, color=FAINT)


def _legend() -> list[Line2D | Patch]:
    return [
        Patch(color=MET, label="target met"),
        Patch(color=MISSED, label="target missed"),
        Patch(color=PLAIN, label="no target"),
        Line2D([], [], color=GOLD, linewidth=2.0, label="target"),
        Line2D([], [], color=INK, linewidth=0.9, marker="|", markersize=5, label="best and worst pair"),
    ]


def _machine_words(machine: Mapping[str, str]) -> str:
    told = ("processor", "memory", "system", "Python", "Java")
    return "; ".join(machine[fact] for fact in told if fact in machine)
