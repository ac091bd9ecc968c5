"""What becomes of the lines that a client's program prints, and that the programs are pinned."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conformance.programs import results_of, walk
from conformance.suite import SuiteError, TestResult, Verdict

CLIENTS = Path(__file__).resolve().parents[3] / "conformance" / "clients"


def lines(*told: object) -> str:
    return "\n".join(json.dumps(line) for line in told)


def test_every_step_of_the_plan_has_a_result_in_its_order() -> None:
    output = lines(
        {"plan": ["connects", "produces", "manages ACLs"]},
        {"name": "manages ACLs", "skipped": "no authorizer"},
        {"name": "produces", "ok": False, "error": "too\n  large"},
        {"name": "connects", "ok": True, "error": ""},
    )
    assert results_of(output, "it ended") == (
        TestResult("connects", Verdict.PASSED),
        TestResult("produces", Verdict.FAILED, "too large"),
        TestResult("manages ACLs", Verdict.SKIPPED, "no authorizer"),
    )


def test_what_the_client_says_beside_the_steps_is_passed_over() -> None:
    output = lines({"plan": ["connects"]}) + '\n{warning\n[1]\nconnected!\n{"name": "connects", "ok": true}'
    assert results_of(output, "it ended") == (TestResult("connects", Verdict.PASSED),)


def test_a_step_that_was_never_told_has_failed() -> None:
    output = lines({"plan": ["connects", "produces"]}, {"name": "connects", "ok": True, "error": ""})
    produces = results_of(output, "it ended with exit code 2")[1]
    assert produces.verdict is Verdict.FAILED
    assert "it ended with exit code 2" in produces.reason


def test_a_program_without_a_plan_is_no_suite() -> None:
    with pytest.raises(SuiteError, match="it ended with exit code 1"):
        results_of("Segmentation fault", "it ended with exit code 1")


def test_what_a_program_told_before_its_time_was_up_counts(tmp_path: Path) -> None:
    told = lines({"plan": ["connects", "hangs"]}, {"name": "connects", "ok": True})
    program = f"import time; print({told!r}, flush=True); time.sleep(60)"
    connects, hangs = walk([sys.executable, "-c", program], directory=tmp_path, timeout_s=3)
    assert connects.verdict is Verdict.PASSED
    assert (hangs.verdict, "longer than 3 s" in hangs.reason) == (Verdict.FAILED, True)


def test_the_last_words_of_a_program_are_the_reason(tmp_path: Path) -> None:
    told = lines({"plan": ["connects"]})
    program = f"import sys; print({told!r}); sys.exit('no such broker')"
    (connects,) = walk([sys.executable, "-c", program], directory=tmp_path)
    assert "exit code 1: no such broker" in connects.reason


def test_a_command_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="no-such-command"):
        walk(["no-such-command"], directory=tmp_path)


def test_packages_of_node_are_pinned_by_content_and_name_no_registry() -> None:
    lock = json.loads((CLIENTS / "node" / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert packages
    assert [name for name, each in packages.items() if "integrity" not in each] == []
    assert [name for name, each in packages.items() if "resolved" in each] == []


def test_go_modules_are_pinned_by_content() -> None:
    module = CLIENTS / "go"
    required = [
        line.split("//")[0].split()
        for line in (module / "go.mod").read_text(encoding="utf-8").splitlines()
        if line.startswith("\t")
    ]
    sums = (module / "go.sum").read_text(encoding="utf-8")
    assert required
    assert [name for name, version in required if f"{name} {version} h1:" not in sums] == []
