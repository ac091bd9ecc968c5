"""The scoreboard: what two verdicts come to, what is kept, what is a defect."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance.report import (
    Outcome,
    Row,
    SuiteResult,
    defects,
    load_results,
    render,
    rows,
    store_results,
)
from conformance.running import KAFKA, OTTLA, SideResult
from conformance.suite import SuiteError, TestResult, Verdict

PASSED, FAILED, SKIPPED = Verdict.PASSED, Verdict.FAILED, Verdict.SKIPPED


def suite(kafka: SideResult, ottla: SideResult, **explained: str) -> SuiteResult:
    return SuiteResult("pets", "tests of pets 1.0", {KAFKA: kafka, OTTLA: ottla}, explained)


def side(**verdicts: Verdict) -> SideResult:
    return SideResult(
        tuple(
            TestResult(name, verdict, "" if verdict is PASSED else f"{name} barks")
            for name, verdict in verdicts.items()
        )
    )


@pytest.mark.parametrize(
    ("kafka", "ottla", "outcome"),
    [
        (PASSED, PASSED, Outcome.BOTH),
        (PASSED, FAILED, Outcome.KAFKA_ONLY),
        (PASSED, SKIPPED, Outcome.KAFKA_ONLY),
        (PASSED, None, Outcome.KAFKA_ONLY),
        (FAILED, PASSED, Outcome.OTTLA_ONLY),
        (SKIPPED, PASSED, Outcome.OTTLA_ONLY),
        (FAILED, FAILED, Outcome.NEITHER),
        (SKIPPED, FAILED, Outcome.NEITHER),
        (FAILED, SKIPPED, Outcome.NEITHER),
        (SKIPPED, SKIPPED, Outcome.SKIPPED),
    ],
)
def test_two_verdicts_come_to_one_outcome(kafka: Verdict, ottla: Verdict | None, outcome: Outcome):
    row = Row("cat", TestResult("cat", kafka), TestResult("cat", ottla) if ottla else None)
    assert row.outcome is outcome


def test_tests_stand_in_the_order_of_kafka_then_those_of_ottla_alone():
    result = suite(side(dog=PASSED, cat=PASSED), side(cow=PASSED, cat=PASSED, dog=PASSED))
    assert [row.name for row in rows(result)] == ["dog", "cat", "cow"]


def test_only_what_passes_on_kafka_alone_is_a_defect():
    result = suite(side(dog=PASSED, cat=FAILED, cow=PASSED), side(dog=FAILED, cat=FAILED, cow=PASSED))
    assert defects(result) == ["pets: dog"]


@pytest.mark.parametrize("broken", [KAFKA, OTTLA])
def test_a_suite_that_could_not_be_run_on_a_side_is_a_defect(broken: str):
    sides = {KAFKA: side(dog=PASSED), OTTLA: side(dog=PASSED), broken: SideResult((), "no compiler")}
    assert defects(SuiteResult("pets", "", sides)) == [f"pets on {broken}: no compiler"]


def test_an_explanation_does_not_excuse_a_defect():
    result = suite(side(dog=PASSED), side(dog=FAILED), dog="it is an old dog")
    assert defects(result) == ["pets: dog"]
    assert "| dog | passed | failed | it is an old dog |" in render([result])


def test_what_is_stored_is_loaded(tmp_path: Path):
    path = tmp_path / "results.json"
    results = {
        "pets": suite(side(dog=PASSED, cat=SKIPPED), side(dog=FAILED, cat=SKIPPED), dog="old"),
        "birds": SuiteResult("birds", "tests of birds 2.0", missing=("node",)),
        "fish": SuiteResult("fish", "", {KAFKA: SideResult((), "no water")}),
    }
    store_results(path, results)
    assert load_results(path) == results
    assert list(load_results(path)) == ["pets", "birds", "fish"]


def test_no_file_holds_nothing_and_a_strange_one_is_refused(tmp_path: Path):
    path = tmp_path / "results.json"
    assert load_results(path) == {}
    path.write_text('{"format_version": 99}', encoding="utf-8")
    with pytest.raises(SuiteError, match="not a results file"):
        load_results(path)


SCOREBOARD = """\
| suite | whose | tests | passed on both | passed on Apache Kafka only | passed on ottla only | \
failed on both | skipped |
|---|---|---|---|---|---|---|---|
| pets | tests of pets 1.0 | 4 | 1 | 1 | 0 | 1 | 1 |

Not run, because a command was not there:

- birds (tests of birds 2.0): node

## pets

tests of pets 1.0.

| test | apache-kafka | ottla | why |
|---|---|---|---|
| dog | passed | failed | dog barks |
| cow | failed | failed | a \\| b; on Apache Kafka: cow barks |

<details>
<summary>1 skipped on both</summary>

- cat barks: `cat`

</details>

Passed, but not at once:

- `hen` on ottla: at the second attempt; at the first: too early

<details>
<summary>1 passed on both</summary>

- `hen`

</details>
"""


def test_the_scoreboard_tells_every_test():
    kafka = side(dog=PASSED, cow=FAILED, cat=SKIPPED, hen=PASSED)
    late = TestResult("hen", PASSED, "at the second attempt; at the first: too early")
    ottla = SideResult((*side(dog=FAILED, cat=SKIPPED).tests, TestResult("cow", FAILED, "a | b"), late))
    text = render([suite(kafka, ottla), SuiteResult("birds", "tests of birds 2.0", missing=("node",))])
    assert text.partition("| suite")[1] + text.partition("| suite")[2] == SCOREBOARD


def test_bytes_that_no_text_has_are_told_by_their_numbers():
    odd = SideResult((TestResult("cow", FAILED, "got \x00\x07 é"),))
    text = render([suite(odd, odd)])
    assert "got \\x00\\x07 é" in text
    assert "\x00" not in text
