"""Seeds that once found something, with what it was. They are run by `make test` for good."""

from __future__ import annotations

SEEDS: dict[int, str] = {}
