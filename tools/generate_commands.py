"""Writes docs/commands.md and the manual pages in docs/man from the commands.

    python tools/generate_commands.py            # runs the shown lines on a real broker, half a minute
    python tools/generate_commands.py --words    # keeps the outputs that the page has
    python tools/generate_commands.py --check    # writes nothing; 1 if the words are not up to date

The lines that are shown are in commands/plays.py. A command that has none and is not among NOT_PLAYED is an
error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from commands.manual import pages
from commands.page import by_line, page, recorded
from commands.plays import NOT_PLAYED, PLAYS, Play
from commands.stage import PlayFailed, Shown, run_plays
from commands.tree import Registered, top_level

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
PAGE: Final = DOCS / "commands.md"
MANUAL: Final = DOCS / "man"


def main(argv: Sequence[str]) -> int:
    """Write or check the files; the exit code."""
    parser = argparse.ArgumentParser(description="Writes docs/commands.md and docs/man.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--words", action="store_true", help="keep the outputs that the page has")
    choice.add_argument("--check", action="store_true", help="write nothing, say whether all is up to date")
    options = parser.parse_args(argv)
    commands = top_level()
    plays, problems = _plays(commands)
    if options.words or options.check:
        shown, missing = _kept(plays)
        problems += missing
    else:
        try:
            shown = run_plays(plays)
        except PlayFailed as failed:
            problems.append(str(failed))
            shown = []
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    files = {PAGE: page(commands, shown), **{MANUAL / name: text for name, text in pages(commands).items()}}
    if options.check:
        return _check(files)
    MANUAL.mkdir(exist_ok=True)
    for stale in set(MANUAL.iterdir()) - files.keys():
        stale.unlink()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return 0


def _plays(commands: Sequence[Registered]) -> tuple[list[Play], list[str]]:
    """The plays of the commands that this version has, and the commands that have none."""
    names = {each.name for top in commands for each in top.below()}
    plays = [each for each in PLAYS if each.command in names and names.issuperset(each.needs)]
    missing = names - {each.command for each in PLAYS} - NOT_PLAYED
    return plays, [f"`ottla {name}` has no lines in tools/commands/plays.py" for name in sorted(missing)]


def _kept(plays: Sequence[Play]) -> tuple[list[Shown], list[str]]:
    """The outputs that the page has of the plays, and the lines that it has none of."""
    found = by_line(recorded(PAGE.read_text(encoding="utf-8"))) if PAGE.exists() else {}
    wanted = [(each.command, line) for each in plays for line in each.lines if not line.startswith("- ")]
    missing = [
        f"{PAGE.name} has no output of: {line}" for command, line in wanted if (command, line) not in found
    ]
    return [found[each] for each in wanted if each in found], missing


def _check(files: Mapping[Path, str]) -> int:
    stale = [path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    stale += sorted(set(MANUAL.iterdir()) - files.keys()) if MANUAL.exists() else []
    for path in stale:
        print(f"{path.relative_to(DOCS.parent)} is not up to date: make commands", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
