"""Turn results into conformance/results.json and the scoreboard conformance/RESULTS.md."""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.running import KAFKA, OTTLA, SideResult
from conformance.suite import SuiteError, TestResult, Verdict

FORMAT_VERSION = 1


class Outcome(enum.Enum):
    """How a test ended, both sides looked at together; in the order of the scoreboard's columns."""

    BOTH = "passed on both"
    #: A defect of ottla: skipped there or not there at all counts as well.
    KAFKA_ONLY = "passed on Apache Kafka only"
    OTTLA_ONLY = "passed on ottla only"
    NEITHER = "failed on both"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The last results of a suite by side, and what was said of it then.

    missing: the commands that kept it from running; then there are no results.
    """

    name: str
    origin: str
    sides: Mapping[str, SideResult] = field(default_factory=dict)
    explained: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One test with both verdicts; None where the side does not know it."""

    name: str
    kafka: TestResult | None
    ottla: TestResult | None

    @property
    def outcome(self) -> Outcome:
        kafka, ottla = _verdict(self.kafka), _verdict(self.ottla)
        if kafka is Verdict.PASSED:
            return Outcome.BOTH if ottla is Verdict.PASSED else Outcome.KAFKA_ONLY
        if ottla is Verdict.PASSED:
            return Outcome.OTTLA_ONLY
        return Outcome.NEITHER if Verdict.FAILED in (kafka, ottla) else Outcome.SKIPPED


def rows(result: SuiteResult) -> list[Row]:
    """Every test of either side, Apache Kafka's order first."""
    kafka, ottla = ({test.name: test for test in _tests(result, side)} for side in (KAFKA, OTTLA))
    return [Row(name, kafka.get(name), ottla.get(name)) for name in dict.fromkeys((*kafka, *ottla))]


def defects(result: SuiteResult) -> list[str]:
    """What is to be fixed: the tests that pass on Apache Kafka alone, and a side that could not be run."""
    broken = [f"{result.name} on {side}: {one.error}" for side, one in result.sides.items() if one.error]
    failed = [f"{result.name}: {row.name}" for row in rows(result) if row.outcome is Outcome.KAFKA_ONLY]
    return broken + (failed if not broken else [])


def load_results(path: Path) -> dict[str, SuiteResult]:
    """What a results.json holds, nothing when there is none. Raises SuiteError when it is not one of ours."""
    if not path.exists():
        return {}
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document["format_version"] != FORMAT_VERSION:
            raise ValueError(f"format_version {document['format_version']}")
        return {name: _suite(name, words) for name, words in document["suites"].items()}
    except (ValueError, KeyError, TypeError) as error:
        raise SuiteError(f"{path} is not a results file ({error}): move it away") from error


def store_results(path: Path, results: Mapping[str, SuiteResult]) -> None:
    document = {
        "format_version": FORMAT_VERSION,
        "suites": {name: _words(result) for name, result in results.items()},
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _words(result: SuiteResult) -> dict[str, Any]:
    sides = {
        side: {
            "error": one.error,
            "tests": [[test.name, test.verdict.value, test.reason] for test in one.tests],
        }
        for side, one in result.sides.items()
    }
    explained = dict(result.explained)
    return {"origin": result.origin, "missing": list(result.missing), "explained": explained, "sides": sides}


def _suite(name: str, words: Mapping[str, Any]) -> SuiteResult:
    sides = {
        side: SideResult(
            tuple(TestResult(test, Verdict(verdict), reason) for test, verdict, reason in one["tests"]),
            one["error"],
        )
        for side, one in words["sides"].items()
    }
    return SuiteResult(name, words["origin"], sides, words["explained"], tuple(words["missing"]))


def render(results: Iterable[SuiteResult]) -> str:
    """The whole of RESULTS.md."""
    each = list(results)
    table = [("suite", "whose", "tests", *(outcome.value for outcome in Outcome))]
    table += [_summary(result) for result in each if not result.missing]
    parts = [_INTRODUCTION, _table(table)]
    left_out = [result for result in each if result.missing]
    if left_out:
        parts.append("Not run, because a command was not there:\n")
        parts += [f"- {one.name} ({one.origin}): {', '.join(one.missing)}" for one in left_out]
        parts.append("")
    parts += [_section(result) for result in each if not result.missing]
    return _printable("\n".join(parts)).rstrip("\n") + "\n"


_INTRODUCTION = """# Other projects' tests and clients, on ottla and on Apache Kafka 4.4.0

Written by `python -m conformance`; the raw results are in [results.json](results.json). Each suite runs on a
fresh broker of either kind with the same settings. A test that passes on Apache Kafka and not on ottla is a
defect of ottla, to be fixed and not to be listed: while there is one, `make conformance` fails.
"""


def _summary(result: SuiteResult) -> tuple[str, ...]:
    counts = Counter(row.outcome for row in rows(result))
    total = sum(counts.values())
    return (result.name, result.origin, str(total), *(str(counts[outcome]) for outcome in Outcome))


def _section(result: SuiteResult) -> str:
    lines = [f"## {result.name}\n", f"{result.origin}.\n"]
    for side in (KAFKA, OTTLA):
        if side not in result.sides:
            lines.append(f"Not run on {side}.\n")
        elif result.sides[side].error:
            lines.append(f"Could not be run on {side}: {_cell(result.sides[side].error)}\n")
    by_outcome: dict[Outcome, list[Row]] = {outcome: [] for outcome in Outcome}
    for row in rows(result):
        by_outcome[row.outcome].append(row)
    others = [row for outcome in Outcome if outcome not in _QUIET for row in by_outcome[outcome]]
    if others:
        table = [("test", KAFKA, OTTLA, "why")]
        table += [
            (_cell(row.name), _said(row.kafka), _said(row.ottla), _why(row, result.explained))
            for row in others
        ]
        lines.append(_table(table))
    skipped = by_outcome[Outcome.SKIPPED]
    if skipped:
        reasons: dict[str, list[str]] = {}
        for row in skipped:
            reasons.setdefault(_reason(row), []).append(row.name)
        texts = [f"- {reason}: {_names(names)}" for reason, names in reasons.items()]
        lines.append(_details(f"{len(skipped)} skipped on both", texts))
    lines += _second_attempts([row for found in by_outcome.values() for row in found])
    passed = [f"- `{row.name}`" for row in by_outcome[Outcome.BOTH]]
    lines.append(_details(f"{len(passed)} passed on both", passed))
    return "\n".join(lines)


def _second_attempts(found: Iterable[Row]) -> list[str]:
    """Tests that passed, but not at once: a passed test has a reason only then."""
    texts = [
        f"- `{row.name}` on {side}: {one.reason}"
        for row in found
        for side, one in ((KAFKA, row.kafka), (OTTLA, row.ottla))
        if one is not None and one.verdict is Verdict.PASSED and one.reason
    ]
    return ["Passed, but not at once:\n", *texts, ""] if texts else []


#: Told in a list that is folded away; all others stand in a table.
_QUIET = (Outcome.BOTH, Outcome.SKIPPED)


def _why(row: Row, explained: Mapping[str, str]) -> str:
    return _cell(explained.get(row.name, "") or _reason(row))


def _reason(row: Row) -> str:
    """ottla's reason, and Apache Kafka's where it is another."""
    ottla, kafka = (one.reason if one else "" for one in (row.ottla, row.kafka))
    if ottla and kafka and ottla != kafka:
        return f"{ottla}; on Apache Kafka: {kafka}"
    return ottla or kafka


def _said(test: TestResult | None) -> str:
    return test.verdict.value if test is not None else "not there"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _details(summary: str, lines: Sequence[str]) -> str:
    return "\n".join(["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>", ""])


def _table(table: Sequence[Sequence[str]]) -> str:
    head, *body = ("| " + " | ".join(line) + " |" for line in table)
    return "\n".join([head, "|" + "---|" * len(table[0]), *body, ""])


def _printable(text: str) -> str:
    """A reason may quote what a client was sent: bytes that no text has are told by their numbers."""
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _verdict(test: TestResult | None) -> Verdict | None:
    return test.verdict if test is not None else None


def _tests(result: SuiteResult, side: str) -> Sequence[TestResult]:
    return result.sides[side].tests if side in result.sides else ()
