"""The audit of locked packages: a vulnerability without a reason fails it, what was not audited is told."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools"))

import audit_locks  # noqa: E402
from audit_locks import BadList, Unavailable, accepted_vulnerabilities, judged, main, unaudited  # noqa: E402

VULNERABLE = {
    "name": "old",
    "version": "1.0",
    "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1", "GHSA-1"], "fix_versions": ["1.1"]}],
}
SOUND = {"name": "sound", "version": "2", "vulns": []}
SKIPPED = {"name": "unknown", "skip_reason": "not found on PyPI"}


def report(*dependencies: dict[str, Any]) -> dict[str, Any]:
    return {"dependencies": list(dependencies), "fixes": []}


def test_a_vulnerability_fails_the_run_unless_a_reason_is_given_for_one_of_its_names() -> None:
    # the same package may stand in several locks
    lines, good = judged(report(VULNERABLE, SOUND, VULNERABLE), {})
    assert not good
    assert lines == ["old 1.0 has PYSEC-1, CVE-1, GHSA-1, fixed in 1.1", "2 locked packages audited"]
    for name in ("PYSEC-1", "CVE-1", "GHSA-1"):
        lines, good = judged(report(VULNERABLE, SOUND), {name: "not reachable from ottla"})
        assert good
        assert lines[0].endswith("accepted: not reachable from ottla")
    lines, good = judged(report(VULNERABLE), {"CVE-2": "another one"})
    assert not good
    assert "CVE-2 is accepted in .ci/accepted-vulnerabilities, and no longer found" in lines


def test_packages_that_were_not_audited_are_not_taken_for_sound() -> None:
    lines, good = judged(report(SOUND, SKIPPED), {})
    assert good
    assert lines == ["1 locked packages audited, 1 could not be asked about: unknown"]
    assert unaudited(report(SOUND, SKIPPED)) == ["unknown"]
    with pytest.raises(Unavailable):
        judged(report(SKIPPED, SKIPPED), {})


def test_every_accepted_vulnerability_has_a_reason() -> None:
    assert accepted_vulnerabilities("# note\n\nCVE-1  of the build alone\n") == {
        "CVE-1": "of the build alone"
    }
    for text in ("CVE-1", "CVE-1   \n"):
        with pytest.raises(BadList, match="line 1: CVE-1 needs a reason"):
            accepted_vulnerabilities(text)
    accepted_vulnerabilities((ROOT / audit_locks.ACCEPTED).read_text())


@pytest.mark.parametrize("answer", [OSError("no route"), b"<html>", b'{"vulnerabilities": []}'])
def test_where_there_is_no_data_a_line_says_so_and_nothing_is_installed(
    answer: OSError | bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def opened(*_: Any, **__: Any) -> io.BytesIO:
        if isinstance(answer, OSError):
            raise answer
        return io.BytesIO(answer)

    monkeypatch.setattr(audit_locks.urllib.request, "urlopen", opened)
    monkeypatch.setattr(audit_locks.subprocess, "run", None)
    assert main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("ottla: the locked packages were not audited: ")


@pytest.mark.parametrize(
    ("dependency", "status"),
    [(SOUND, 0), (VULNERABLE, 1), (SKIPPED, 0)],
    ids=["sound", "vulnerable", "skipped"],
)
def test_the_run_ends_as_the_report_says(
    dependency: dict[str, Any], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        ended = status if "pip_audit" in command else 0
        return subprocess.CompletedProcess(command, ended, json.dumps(report(dependency)), "")

    monkeypatch.setattr(audit_locks, "require_data", lambda: None)
    monkeypatch.setattr(audit_locks.subprocess, "run", run)
    assert main() == status


def test_a_pip_audit_that_fails_or_hangs_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(
            command, 1 if "pip_audit" in command else 0, "", "a\nno connection"
        )

    def hanging(command: list[str], timeout: int, **_: Any) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(audit_locks, "require_data", lambda: None)
    for run, told in ((failing, "pip-audit: no connection"), (hanging, "-m pip took more than")):
        monkeypatch.setattr(audit_locks.subprocess, "run", run)
        assert main() == 0
        assert told in capsys.readouterr().out


def test_pip_audit_is_locked_by_hashes_and_is_no_dependency() -> None:
    lock = (ROOT / ".ci" / "pip-audit.lock").read_text()
    assert "pip-audit==" in lock and "--hash=sha256:" in lock
    for other in ("pyproject.toml", *audit_locks.LOCKS[:3]):
        assert "pip-audit" not in (ROOT / other).read_text()
