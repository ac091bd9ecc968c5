"""Runs of `ottla doctor` on a cluster, and what they tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support.clients.ottla_command import ottla

#: Limits by which the disk of the machine that runs the tests may be nearly full, or fill up fast.
WHATEVER_THE_DISK = ("--limit", "disk_free_part=0", "--limit", "disk_hours=0")


@dataclass(frozen=True, slots=True)
class DoctorRun:
    """What a run has told: findings, and the checks that were not made."""

    code: int
    findings: list[dict[str, Any]]
    not_made: dict[str, str]

    def names(self) -> set[str]:
        """The checks that found something."""
        return {one["check"] for one in self.findings}

    def of(self, check: str, severity: str, *subjects: str) -> dict[str, Any]:
        """The finding of a check with that severity and these subjects. Fails if there is none."""
        found = [
            one
            for one in self.findings
            if one["check"] == check and one["severity"] == severity and set(subjects) <= set(one["subjects"])
        ]
        assert found, f"no {severity} of {check} with {subjects} in {self.findings}, {self.not_made}"
        return found[0]


def doctor(bootstrap: str, *words: str) -> DoctorRun:
    """Run `ottla doctor --json`; it must not fail."""
    run = ottla(bootstrap, "doctor", "--json", *words)
    assert run.code in (0, 3, 4) and run.err == "", run
    findings = [row for row in run.rows if "severity" in row]
    return DoctorRun(
        run.code, findings, {row["check"]: row["reason"] for row in run.rows if "not_made" in row}
    )
