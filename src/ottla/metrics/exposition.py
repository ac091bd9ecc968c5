"""Writes the samples of sources in Prometheus' text formats, a slice at a time.

Decided against prometheus-client on this path (it is the parser that the tests read the text with): 20,000
series of two labels take it 100 ms in one go, in which the loop does nothing else, and its import takes 77
ms of a start; here they take 17 ms, in slices. It also wants each increment to go through a locked object,
where the broker has plain integers.

A source is a function that gives families, or None at a point where it has worked a while. Between two
samples, and at each None, the writer looks at the clock, and once a slice has lasted SLICE_SECONDS it gives
the loop a turn. So what a source walks through may change meanwhile: it takes a copy (`list(partitions)`)
of what can grow.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.metrics.histogram import QUANTILES, Histogram, Sampled
from ottla.metrics.metric import Kind, Metric
from ottla.metrics.tables import endpoint as table

log = logging.getLogger("ottla.metrics")

SLICE_SECONDS: Final = 0.002
LOOK_EVERY: Final = 16
"""Samples between two looks at the clock: they take a hundredth of a slice."""
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""The buckets of a HISTOGRAM, in its exposed unit."""

Labels = tuple[str | int, ...]
"""The values of a metric's labels, in the order of their names.

The last ones may be left out: Kafka has a series of all topics beside those of each.
"""
Value = float | Histogram | Sampled
Sample = tuple[Labels, Value]


class Family(NamedTuple):
    """A metric and its samples: a number each, or a Histogram where the metric is a summary or histogram."""

    metric: Metric
    samples: Iterable[Sample]


Source = Callable[[], Iterator[Family | None]]


def single(metric: Metric, value: Value) -> Family:
    """The family of a metric without labels."""
    return Family(metric, (((), value),))


def by_label(metric: Metric, values: Mapping[str, float] | Mapping[int, float]) -> Family:
    """The family of a metric with one label, from a copy of the values by label."""
    return Family(metric, [((label,), value) for label, value in values.items()])


class Exposition:
    """All sources of a process, and the text that they make at a scrape."""

    def __init__(self, sources: Iterable[Source] = ()) -> None:
        self._sources = list(sources)
        self._clock = time.perf_counter
        self.scrapes = 0
        self.source_errors = 0
        self._told_sources: list[Source] = []

    def add(self, source: Source) -> None:
        """Add a source; its families come behind those of earlier ones."""
        self._sources.append(source)

    def remove(self, source: Source) -> None:
        """Take a source out."""
        self._sources.remove(source)

    def slices(self, *, open_metrics: bool = False) -> Iterator[bytes]:
        """The text, in pieces of about SLICE_SECONDS each; the caller gives others a turn between them."""
        clock = self._clock
        slice_began = began = clock()
        worked = longest = 0.0
        writer = _Writer(open_metrics)
        for _ in self._steps(writer):
            lasted = clock() - slice_began
            if lasted >= SLICE_SECONDS:
                worked += lasted
                longest = max(longest, lasted)
                yield writer.taken()
                slice_began = clock()
        lasted = clock() - slice_began
        self._write_own(writer, clock() - began, worked + lasted, max(longest, lasted))
        if open_metrics:
            writer.lines.append("# EOF\n")
        self.scrapes += 1
        yield writer.taken()

    def text(self, *, open_metrics: bool = False) -> str:
        """The whole text at once, for a thread of its own and for tests."""
        return b"".join(self.slices(open_metrics=open_metrics)).decode()

    def _failed(self, source: Source, problem: Exception) -> None:
        """A source that fails must not take the other metrics along; its failure is told once and counted."""
        self.source_errors += 1
        if source not in self._told_sources:
            self._told_sources.append(source)
            log.error("a source of metrics failed, its other series are left out", exc_info=problem)

    def _steps(self, writer: _Writer) -> Iterator[None]:
        """Write the families of all sources; a step is a little work."""
        for source in list(self._sources):
            try:
                yield from writer.steps(source)
            except Exception as problem:
                self._failed(source, problem)

    def _write_own(self, writer: _Writer, seconds: float, worked: float, longest: float) -> None:
        def own() -> Iterator[Family]:
            yield single(table.SCRAPES, self.scrapes)
            yield single(table.SCRAPE_SECONDS, seconds)
            yield single(table.SCRAPE_WORK_SECONDS, worked)
            yield single(table.LONGEST_SLICE_SECONDS, longest)
            yield single(table.SOURCE_ERRORS, self.source_errors)
            yield by_label(table.SERIES_DROPPED, dict(writer.dropped))

        for _ in writer.steps(own):
            pass


class _Writer:
    """The lines of one scrape."""

    def __init__(self, open_metrics: bool) -> None:
        self.lines: list[str] = []
        self.dropped: dict[str, int] = {}
        """Series left out, by metric."""
        self._open_metrics = open_metrics
        self._seen: set[str] = set()

    def taken(self) -> bytes:
        """The text since the last call."""
        text = "".join(self.lines).encode("utf-8", "backslashreplace")
        self.lines.clear()
        return text

    def steps(self, source: Source) -> Iterator[None]:
        """Write a source's families; a step is a little work."""
        for family in source():
            yield
            if family is not None:
                yield from self._family(*family)

    def _family(self, metric: Metric, samples: Iterable[Sample]) -> Iterator[None]:
        if metric.name in self._seen:
            raise ValueError(f"two sources give {metric.name}")
        self._seen.add(metric.name)
        head = self._head(metric)
        lines = [_line_of(metric, number) for number in range(len(metric.labels) + 1)]
        left = metric.most_series
        until_look = LOOK_EVERY
        for values, value in samples:
            until_look -= 1
            if not until_look:
                until_look = LOOK_EVERY
                yield
            if left <= 0:
                self.dropped[metric.name] = self.dropped.get(metric.name, 0) + 1
                continue
            if head:
                self.lines.append(head)
                head = ""
            left -= 1
            for each in values:
                if isinstance(each, str) and ("\\" in each or '"' in each or "\n" in each):
                    values = tuple(_escaped(each) for each in values)
                    break
            if isinstance(value, (Histogram, Sampled)):
                self._distribution(metric, values, value)
            else:
                self.lines.append(lines[len(values)] % (*values, number(value)))

    def _head(self, metric: Metric) -> str:
        name, kind = metric.name, str(metric.kind)
        if self._open_metrics and metric.kind is Kind.COUNTER:
            # A counter's samples must end in _total there, which not all of Kafka's do.
            name, kind = (name[:-6], kind) if name.endswith("_total") else (name, "unknown")
        text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
        if self._open_metrics:
            text = text.replace('"', r"\"")
        return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"

    def _distribution(self, metric: Metric, values: Labels, found: Histogram | Sampled) -> None:
        count = found.count
        own = _pairs(metric.labels[: len(values)]) % values
        if isinstance(found, Sampled) and metric.kind is not Kind.SUMMARY:
            raise ValueError(f"{metric.name} is a {metric.kind}, and only some of its values were measured")
        if metric.kind is Kind.SUMMARY:
            for quantile, value in zip(QUANTILES, found.quantiles(), strict=True):
                self.lines.append(_sample(metric.name, own, f'quantile="{quantile}"', number(value)))
        elif metric.kind is Kind.HISTOGRAM and isinstance(found, Histogram):
            for bound, below in zip(BOUNDS, found.cumulative(BOUNDS), strict=True):
                self.lines.append(_sample(f"{metric.name}_bucket", own, f'le="{float(bound)}"', str(below)))
            self.lines.append(_sample(f"{metric.name}_bucket", own, 'le="+Inf"', str(count)))
        else:
            raise ValueError(f"{metric.name} is a {metric.kind}, and its value a distribution")
        self.lines.append(_sample(f"{metric.name}_sum", own, "", number(found.scaled_sum)))
        self.lines.append(_sample(f"{metric.name}_count", own, "", str(count)))


def number(value: float) -> str:
    """A number as Prometheus reads it."""
    if isinstance(value, int):
        return int.__repr__(value)
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _line_of(metric: Metric, labels: int) -> str:
    """The line of a sample with places for the values of its first labels and the number."""
    pairs = _pairs(metric.labels[:labels])
    return f"{metric.name}{{{pairs}}} %s\n" if pairs else f"{metric.name} %s\n"


def _pairs(labels: tuple[str, ...]) -> str:
    return ",".join(f'{label}="%s"' for label in labels)


def _sample(name: str, own: str, further: str, value: str) -> str:
    pairs = f"{own},{further}" if own and further else own or further
    return f"{name}{{{pairs}}} {value}\n" if pairs else f"{name} {value}\n"


def _escaped(value: str | int) -> str:
    return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
