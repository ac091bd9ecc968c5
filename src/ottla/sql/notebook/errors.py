"""How a magic fails: a few lines for the person, and no traceback; the cells behind it do not run."""

from __future__ import annotations

from ottla.config.errors import UserError
from ottla.sql.notebook.views import plain

_RED, _END = "\x1b[31m", "\x1b[0m"


class StatementFailed(UserError):
    """A statement, or the magic itself, can't do what is asked."""

    def _render_traceback_(self) -> list[str]:
        """What IPython writes in place of a traceback."""
        first, *rest = plain(str(self)).split("\n")
        return [
            f"{_RED}{first}{_END}",
            *(f"{_RED}{line}{_END}" if line.strip() == "^" else line for line in rest),
        ]
