"""The output of a command: tables and sentences for people, JSON lines with --json, names with --quiet.

Results go to stdout; notes, warnings and progress to stderr.
"""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.cli.frame.progress import Progress
from ottla.cli.frame.table import Column, columns_for, table_lines
from ottla.cli.frame.terminal import Style, columns_of, has_colours, printable, styled


class OutputMode(enum.Enum):
    """For whom a command writes."""

    PEOPLE = "people"
    JSON = "json"
    QUIET = "quiet"


class Output:
    """Writes a command's results."""

    def __init__(self, mode: OutputMode = OutputMode.PEOPLE) -> None:
        self.mode = mode

    @property
    def is_json(self) -> bool:
        """Whether machines read the output."""
        return self.mode is OutputMode.JSON

    @property
    def is_quiet(self) -> bool:
        """Whether only names are wanted."""
        return self.mode is OutputMode.QUIET

    @property
    def for_people(self) -> bool:
        """Whether people read the output: tables and sentences."""
        return self.mode is OutputMode.PEOPLE

    def listing(
        self,
        rows: Iterable[Mapping[str, Any]],
        columns: Sequence[Column] = (),
        *,
        name: str = "name",
        empty: str = "",
    ) -> None:
        """Write rows: a table; or a JSON object a line, with all keys; or the values of `name`, one a line.

        columns: of the table, a column a key if there are none. empty: the sentence for people if there are
        no rows; it goes to stderr.
        """
        if self.mode is OutputMode.JSON:
            # One write a few hundred rows is twice as fast as one a row.
            self._write_lines(map(json.dumps, rows))
            return
        if self.mode is OutputMode.QUIET:
            self._write_lines(str(row[name]) for row in rows)
            return
        listed = list(rows)
        if not listed:
            if empty:
                self.note(empty)
            return
        width, colours = columns_of(sys.stdout), has_colours(sys.stdout)
        self._write_lines(table_lines(listed, columns or columns_for(listed), width, colours))

    def facts(self, facts: Mapping[str, Any], *, name: str = "name") -> None:
        """Write one thing: a line a fact; or one JSON object; or the value of `name`."""
        match self.mode:
            case OutputMode.JSON:
                self.json(facts)
            case OutputMode.QUIET:
                self._write_lines([str(facts[name])])
            case OutputMode.PEOPLE:
                rows = [{"key": key, "value": value} for key, value in facts.items()]
                columns = [Column("key", style=lambda _: Style.BOLD), Column("value")]
                lines = table_lines(rows, columns, columns_of(sys.stdout), has_colours(sys.stdout))
                next(lines, None)
                self._write_lines(lines)

    def done(self, sentence: str, result: Mapping[str, Any], *, name: str = "name") -> None:
        """Write the result of a change: a sentence; or one JSON object; or its value of `name`, if any."""
        match self.mode:
            case OutputMode.JSON:
                self.json(result)
            case OutputMode.QUIET:
                if name in result:
                    self._write_lines([str(result[name])])
            case OutputMode.PEOPLE:
                self.say(sentence)

    def say(self, text: str) -> None:
        """Write a line for people to stdout; nothing with --json and --quiet."""
        if self.mode is OutputMode.PEOPLE:
            self._write_lines([printable_lines(text)])

    def json(self, value: Any) -> None:
        """Write one line of JSON to stdout, whatever the mode."""
        self._write_lines([json.dumps(value)])

    def line(self, text: str) -> None:
        """Write a line to stdout, whatever the mode, as it is."""
        self._write_lines([text])

    def note(self, text: str) -> None:
        """Write a line for people to stderr; nothing with --json and --quiet."""
        if self.mode is OutputMode.PEOPLE:
            print(printable_lines(text), file=sys.stderr)

    def warn(self, text: str) -> None:
        """Write a warning to stderr, whatever the mode."""
        word = styled("warning:", Style.YELLOW) if has_colours(sys.stderr) else "warning:"
        print(f"{word} {printable_lines(text)}", file=sys.stderr)

    def progress(self, description: str, total: int | None = None, unit: str = "") -> Progress:
        """A progress bar on stderr, `with output.progress("reading", 10) as bar: bar.advance(1)`.

        It appears after a second, and only on a terminal without --json and --quiet.
        """
        return Progress(description, total, unit, shown=self.mode is OutputMode.PEOPLE)

    def _write_lines(self, lines: Iterable[str]) -> None:
        waiting: list[str] = []
        for line in lines:
            waiting.append(line)
            if len(waiting) == 512:
                sys.stdout.write("\n".join(waiting) + "\n")
                waiting.clear()
        if waiting:
            sys.stdout.write("\n".join(waiting) + "\n")


def printable_lines(text: str) -> str:
    """The text with control characters other than line ends made visible."""
    return "\n".join(map(printable, text.split("\n")))
