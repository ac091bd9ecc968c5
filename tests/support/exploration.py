"""How many examples a stateful test explores: few in `make test`, ten times as many in `make simulate`."""

from __future__ import annotations

import os

DEEP = os.environ.get("OTTLA_EXPLORE") == "deep"
"""Set by `make simulate`."""


def examples(number: int) -> int:
    """`number` examples, ten times as many when exploring deeply."""
    return number * 10 if DEEP else number
