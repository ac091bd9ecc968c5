"""How much a test explores: little in `make test`, much in `make simulate` and `make drills`."""

from __future__ import annotations

import os

DEEP = os.environ.get("OTTLA_EXPLORE") == "deep"
"""Set by `make simulate` and `make drills`."""


def examples(number: int, deep: int | None = None) -> int:
    """`number` examples; `deep` of them when exploring deeply, ten times as many where it is left out."""
    return (number * 10 if deep is None else deep) if DEEP else number
