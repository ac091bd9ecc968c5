"""Programs in a client's own language that walk through what its users do and print a JSON line a step.

The first line is `{"plan": [names]}`. Then comes, in the plan's order, `{"name", "ok", "error"}` for a step
that was carried out and `{"name", "skipped"}` with the reason for each one that was left out. Other lines are
the client's own talk and mean nothing. A step that the program did not live to tell about has failed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.suite import SuiteError, TestResult, Verdict

TIMEOUT_S = 300.0
LONGEST_ENDING = 300


def walk(
    command: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> tuple[TestResult, ...]:
    """Run a program in `directory` and tell how its steps went. Raises SuiteError if it tells no plan."""
    try:
        done = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, timeout=timeout_s, check=False
        )
        output, ending = done.stdout, f"it ended with exit code {done.returncode}"
        words = done.stderr
    except subprocess.TimeoutExpired as error:
        output, ending = error.stdout or b"", f"it ran longer than {timeout_s:.0f} s"
        words = error.stderr or b""
    except OSError as error:
        raise SuiteError(f"{command[0]}: {error}") from error
    if last := " ".join(words.decode(errors="replace").split())[-LONGEST_ENDING:]:
        ending = f"{ending}: {last}"
    return results_of(output.decode(errors="replace"), ending)


def results_of(output: str, ending: str) -> tuple[TestResult, ...]:
    """A result for every step of the plan. ending: how the program ended, for steps that it never told of.

    Raises SuiteError if there is no plan.
    """
    lines = [line for line in map(_object, output.splitlines()) if line is not None]
    plan = next((line["plan"] for line in lines if "plan" in line), None)
    if plan is None:
        raise SuiteError(f"the program told no plan, {ending}")
    told = {line["name"]: _result(line) for line in lines if "name" in line}
    missing = f"the program did not come to it, {ending}"
    return tuple(told.get(name, TestResult(name, Verdict.FAILED, missing)) for name in plan)


def _result(line: Mapping[str, Any]) -> TestResult:
    if "skipped" in line:
        return TestResult(line["name"], Verdict.SKIPPED, line["skipped"])
    if line["ok"]:
        return TestResult(line["name"], Verdict.PASSED)
    return TestResult(line["name"], Verdict.FAILED, " ".join(line["error"].split()) or "no reason told")


def _object(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
