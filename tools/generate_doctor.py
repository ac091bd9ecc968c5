"""Writes docs/doctor.md: its words from tools/doctor.md, its tables from the checks and their limits.

python tools/generate_doctor.py            # or --check: writes nothing; 1 if the page is not up to date
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

from ottla.doctor import limits
from ottla.doctor.checks.table import FAMILIES

REPOSITORY: Final = Path(__file__).resolve().parent.parent
WORDS: Final = Path(__file__).parent / "doctor.md"
PAGE: Final = REPOSITORY / "docs" / "doctor.md"
NOTE: Final = "<!-- Written by tools/generate_doctor.py (`make commands`) from the checks themselves. -->"
RIGHTS: Final = {
    "acls": "DescribeAcls",
    "broker_settings": "DescribeConfigs (broker)",
    "clocks": "DescribeQuorum",
    "cluster": "DescribeCluster",
    "contacts": "ApiVersions",
    "directories": "DescribeLogDirs",
    "due": "ListOffsets",
    "first_records": "ListOffsets",
    "groups": "ListGroups, DescribeGroups, OffsetFetch",
    "growth": "DescribeLogDirs",
    "hanging": "ListOffsets, DescribeProducers",
    "listeners": "connections, handshakes",
    "metrics": "--metrics-from",
    "moves": "ListPartitionReassignments",
    "offsets": "ListOffsets",
    "producers": "DescribeProducers",
    "quorum": "DescribeQuorum",
    "quotas": "DescribeClientQuotas",
    "tokens": "DescribeDelegationToken",
    "topic_settings": "DescribeConfigs (topic)",
    "topics": "Metadata",
    "transactions": "ListTransactions",
    "versions": "ApiVersions",
}


def page() -> str:
    """The page's text."""
    words = WORDS.read_text(encoding="utf-8")
    return f"{NOTE}\n\n{words.replace('{checks}', checks()).replace('{limits}', limits_table())}"


def checks() -> str:
    """The table of checks, a family after the other."""
    rows = ["| check | worst | finds | asks |", "|---|---|---|---|"]
    for family, listed in FAMILIES.items():
        rows.append(f"| **{family}** | | | |")
        for check in listed:
            asked = ", ".join(dict.fromkeys(RIGHTS[name] for name in check.reads))
            rows.append(f"| `{check.name}` | {check.worst.value} | {check.fault} | {asked} |")
    return "\n".join(rows)


def limits_table() -> str:
    """The table of limits, with the docstrings of their fields."""
    (body,) = [
        node
        for node in ast.parse(inspect.getsource(limits)).body
        if isinstance(node, ast.ClassDef) and node.name == limits.Limits.__name__
    ]
    texts: dict[str, str] = {}
    name = ""
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            texts[name] = " ".join(str(node.value.value).split())
    defaults = limits.Limits()
    rows = ["| limit | default | |", "|---|---|---|"]
    rows += [
        f"| `{each.name}` | {_number(getattr(defaults, each.name))} | {texts[each.name]} |"
        for each in fields(limits.Limits)
    ]
    return "\n".join(rows)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def main(argv: Sequence[str]) -> int:
    """Write or check the page; the exit code."""
    text = page()
    if list(argv) == ["--check"]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE.relative_to(REPOSITORY)} is not up to date: make commands", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
