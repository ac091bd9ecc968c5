"""How many examples a test explores: few in `make test`, twenty-five times as many in `make simulate`."""

from __future__ import annotations

import os

DEEP = os.environ.get("OTTLA_EXPLORE") == "deep"
"""Set by `make simulate`."""


def examples(number: int) -> int:
    """`number` examples, twenty-five times as many when exploring deeply."""
    return number * 25 if DEEP else number
