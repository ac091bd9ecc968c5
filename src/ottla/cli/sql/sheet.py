"""Where results are written: stdout, and the file that SPOOL names; the form that they have."""

from __future__ import annotations

import enum
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TextIO

from ottla.cli.frame.output import printable_lines
from ottla.cli.frame.terminal import Style, columns_of, has_colours, is_terminal, styled
from ottla.cli.sql.tables import Paper

_STYLES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Form(enum.Enum):
    """How results are written. EXPANDED: a line a value; JSON: an object a line."""

    TABLE = "table"
    EXPANDED = "expanded"
    JSON = "json"
    CSV = "csv"
    TSV = "tsv"


class Sheet:
    """Writes lines to stdout, and without colours to a file while one is open."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.wraps = True
        self.column_width: int | None = None
        """Of all columns of tables; None: as their texts need."""
        self.live = True
        """Whether rows of a table take the place of earlier ones, where a person sees them."""
        self._spool: TextIO | None = None

    @property
    def is_seen(self) -> bool:
        """Whether stdout is a terminal on which lines can be written anew."""
        return has_cursor(sys.stdout)

    @property
    def for_machines(self) -> bool:
        """Whether only results may be written to stdout."""
        return self.form in (Form.JSON, Form.CSV, Form.TSV)

    @property
    def height(self) -> int:
        """The lines of the terminal."""
        return max(6, shutil.get_terminal_size((80, 24)).lines)

    def paper(self) -> Paper:
        """What tables are written on."""
        encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
        return Paper(
            columns_of(sys.stdout),
            has_colours(sys.stdout),
            encoding.startswith("utf"),
            self.wraps,
            self.column_width,
        )

    def lines(self, lines: Iterable[str]) -> None:
        """Write result lines."""
        text = "".join(f"{line}\n" for line in lines)
        if text:
            sys.stdout.write(text)
            self.spool_text(text)

    def flush(self) -> None:
        """Have the reader see what was written."""
        sys.stdout.flush()

    def say(self, text: str) -> None:
        """A sentence for people; to stderr where machines read stdout."""
        line = printable_lines(text)
        if self.for_machines:
            print(line, file=sys.stderr)
        else:
            self.lines([line])

    def warn(self, text: str) -> None:
        """A warning."""
        self.flush()
        word = styled("warning:", Style.YELLOW) if has_colours(sys.stderr) else "warning:"
        print(f"{word} {printable_lines(text)}", file=sys.stderr)
        self.spool_text(f"warning: {text}\n")

    def problem(self, text: str) -> None:
        """An error, of one line or several, whose first is in red."""
        self.flush()
        first, *rest = printable_lines(text).split("\n")
        if has_colours(sys.stderr):
            first = styled(first, Style.RED)
            rest = [styled(line, Style.RED) if line.strip() == "^" else line for line in rest]
        print("\n".join([first, *rest]), file=sys.stderr, flush=True)
        self.spool_text(f"{text}\n")

    def spool_to(self, path: Path) -> None:
        """Write all that follows to a file too. Raises OSError."""
        opened = path.open("w", encoding="utf-8")
        self.spool_end()
        self._spool = opened

    def spool_end(self) -> bool:
        """End that; whether a file was open."""
        if self._spool is None:
            return False
        self._spool.close()
        self._spool = None
        return True

    def spool_text(self, text: str) -> None:
        """Write to the file alone, if one is open."""
        if self._spool is not None:
            self._spool.write(_STYLES.sub("", text))
            self._spool.flush()


def has_cursor(stream: TextIO) -> bool:
    """Whether lines on the stream can be written anew: a terminal that knows the sequences for it."""
    import os

    return is_terminal(stream) and os.environ.get("TERM", "dumb") != "dumb"
