"""Looks for known vulnerabilities of the locked packages: `python tools/audit_locks.py`, as `.ci/run` does.

pip-audit asks PyPI about every package. It is no dependency of ottla's: it is installed, by a lock of its
own, into a directory that is gone afterwards. Where it can't be had, or PyPI does not tell vulnerabilities,
one line says so and the run goes on; a vulnerability fails it, unless `.ci/accepted-vulnerabilities` has a
reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock", ".ci/pip-audit.lock")
ACCEPTED = ".ci/accepted-vulnerabilities"
KNOWN_TO_BE_VULNERABLE = "https://pypi.org/pypi/pip/23.2.1/json"
"""An old release with a vulnerability: an index that does not tell it knows none of the others either."""
PROBE_SECONDS = 5
INSTALL_SECONDS = 30
AUDIT_SECONDS = 30


class Unavailable(Exception):
    """The audit can't be made here; says why."""


class BadList(Exception):
    """The file of accepted vulnerabilities is malformed; says where."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A vulnerability of a package. ids: its id and its aliases. fixes: the versions without it."""

    package: str
    ids: tuple[str, ...]
    fixes: tuple[str, ...]

    def __str__(self) -> str:
        fixed = f"fixed in {', '.join(self.fixes)}" if self.fixes else "without a fix"
        return f"{self.package} has {', '.join(self.ids)}, {fixed}"


def accepted_vulnerabilities(text: str) -> dict[str, str]:
    """The reasons by ids. Raises BadList for a line without a reason."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.strip().partition(" ")
        if not reason.strip():
            raise BadList(f"{ACCEPTED}, line {number}: {name} needs a reason behind it")
        found[name] = reason.strip()
    return found


def findings(report: Mapping[str, Any]) -> list[Finding]:
    """The vulnerabilities of pip-audit's report, by package and id."""
    found = {
        Finding(
            f"{each['name']} {each['version']}",
            (one["id"], *one.get("aliases", ())),
            tuple(one.get("fix_versions", ())),
        )
        for each in report["dependencies"]
        for one in each.get("vulns", ())
    }
    return sorted(found, key=lambda finding: (finding.package, finding.ids))


def unaudited(report: Mapping[str, Any]) -> list[str]:
    """The packages that PyPI could not tell about: pip-audit passes over them, with a success."""
    return sorted({each["name"] for each in report["dependencies"] if "skip_reason" in each})


def judged(report: Mapping[str, Any], accepted: Mapping[str, str]) -> tuple[list[str], bool]:
    """The lines to print, and whether the run may succeed. Raises Unavailable if nothing was audited."""
    skipped = unaudited(report)
    packages = len({each["name"] for each in report["dependencies"]})
    if len(skipped) == packages:
        raise Unavailable("PyPI told about none of the packages")
    lines, good, used = [], True, set()
    for finding in findings(report):
        reasons = [(name, accepted[name]) for name in finding.ids if name in accepted]
        used.update(name for name, _ in reasons)
        good = good and bool(reasons)
        lines.append(f"{finding}" + (f"; accepted: {reasons[0][1]}" if reasons else ""))
    lines += [
        f"{name} is accepted in {ACCEPTED}, and no longer found" for name in accepted if name not in used
    ]
    left_out = f", {len(skipped)} could not be asked about: {', '.join(skipped)}" if skipped else ""
    lines.append(f"{packages - len(skipped)} locked packages audited{left_out}")
    return lines, good


def require_data() -> None:
    """Raises Unavailable where PyPI can't be reached, or tells no vulnerabilities."""
    try:
        with urllib.request.urlopen(KNOWN_TO_BE_VULNERABLE, timeout=PROBE_SECONDS) as answer:
            told = json.load(answer)
    except (OSError, ValueError) as problem:
        raise Unavailable(f"PyPI's data can't be had: {problem}") from None
    if not told.get("vulnerabilities"):
        raise Unavailable("the package index tells no vulnerabilities")


def audit(directory: Path) -> Mapping[str, Any]:
    """pip-audit's report on the locks; it is installed in `directory`. Raises Unavailable."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--require-hashes",
    ]
    _run([*pip, "--target", str(directory), "-r", str(ROOT / ".ci/pip-audit.lock")], INSTALL_SECONDS, {})
    command = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip", "--format", "json"]
    command += ["--progress-spinner", "off"]
    for lock in LOCKS:
        command += ["--requirement", str(ROOT / lock)]
    told = _run(command, AUDIT_SECONDS, {"PYTHONPATH": str(directory)}, expected=(0, 1))
    try:
        report: Mapping[str, Any] = json.loads(told.stdout)
    except ValueError:
        raise Unavailable(f"pip-audit: {_last_line(told.stderr)}") from None
    return report


def _run(
    command: list[str], seconds: int, environment: Mapping[str, str], expected: tuple[int, ...] = (0,)
) -> subprocess.CompletedProcess[str]:
    own = {**os.environ, **environment}
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env=own, cwd=ROOT, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command[1:3])} took more than {seconds} s") from None
    if run.returncode not in expected:
        raise Unavailable(f"{' '.join(command[1:3])}: {_last_line(run.stderr)}")
    return run


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def main() -> int:
    """Audit the locks and print what is found; 1 for a vulnerability without a reason."""
    try:
        accepted = accepted_vulnerabilities((ROOT / ACCEPTED).read_text())
        require_data()
        with tempfile.TemporaryDirectory(prefix="ottla-audit-") as directory:
            lines, good = judged(audit(Path(directory)), accepted)
    except Unavailable as problem:
        print(f"ottla: the locked packages were not audited: {problem}")
        return 0
    except BadList as problem:
        print(f"ottla: {problem}")
        return 1
    for line in lines:
        print(f"ottla: {line}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
