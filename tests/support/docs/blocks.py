"""The blocks of code of a page of the documentation, so that tests run what readers copy."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def introduction(page: str) -> str:
    """What stands in `docs/<page>` above its first section."""
    return (DOCS / page).read_text(encoding="utf-8").partition("\n## ")[0]


def section(page: str, title: str) -> str:
    """A section of `docs/<page>` without its heading. It has to be there."""
    text = (DOCS / page).read_text(encoding="utf-8")
    _, found, behind = text.partition(f"\n## {title}\n")
    assert found, f"docs/{page} has no section {title}"
    return behind.partition("\n## ")[0]


def fenced(text: str, language: str) -> list[str]:
    """The blocks between ```language and ```."""
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)


def indented(text: str) -> list[str]:
    """The blocks that are indented by four spaces."""
    found = re.finditer(r"(?m)(?:^    .*\n|^\n(?=    ))+", text)
    return [textwrap.dedent(each[0]).strip("\n") for each in found]
