"""docs/commands.md: every command with its help and lines with their output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from commands.stage import Shown
from commands.tree import Registered
from ottla.cli.main import COMMANDS

NOTE: Final = "<!-- Written by tools/generate_commands.py (`make commands`) from the commands themselves. -->"
INTRODUCTION: Final = Path(__file__).parent / "introduction.md"
OTHER_TOOLS: Final = Path(__file__).parent / "other_tools.md"
_BLOCK: Final = re.compile(r"```console\n(.*?)```\n", re.DOTALL)
_HEADING: Final = re.compile(r"^### `ottla (.+)`$", re.MULTILINE)


def page(commands: Sequence[Registered], shown: Sequence[Shown]) -> str:
    """The page's text."""
    parts = [NOTE, INTRODUCTION.read_text("utf-8"), _contents(commands)]
    parts += ["## Words of other tools", OTHER_TOOLS.read_text("utf-8")]
    for top in commands:
        parts.append(f"## ottla {top.name}")
        if top.name not in [each.name for each in top.below()]:
            parts.append(_help(top))
        for each in top.below():
            parts.append(f"### `{each.path}`")
            parts.append(_help(each))
            if outputs := [one for one in shown if one.command == each.name]:
                parts.append(_console(outputs))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def recorded(text: str) -> list[Shown]:
    """The outputs in a page."""
    found = []
    headings = [*_HEADING.finditer(text)]
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    for heading, end in zip(headings, ends, strict=True):
        for block in _BLOCK.findall(text, heading.end(), end):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, output = part.partition("\n")
                found.append(Shown(heading[1], line, output.rstrip("\n")))
    return found


def _contents(commands: Sequence[Registered]) -> str:
    rows = [f"| [`{top.path}`](#ottla-{top.name}) | {COMMANDS[top.name].summary} |" for top in commands]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def _help(each: Registered) -> str:
    with each.context() as context:
        text = "\n".join(line.rstrip() for line in each.command.get_help(context).splitlines())
    return f"```text\n{text}\n```"


def _console(outputs: Iterable[Shown]) -> str:
    lines = [f"$ {one.line}\n{one.output}".rstrip("\n") for one in outputs]
    return "```console\n" + "\n".join(lines) + "\n```"


def by_line(shown: Iterable[Shown]) -> Mapping[tuple[str, str], Shown]:
    """Outputs by command and line."""
    return {(one.command, one.line): one for one in shown}
