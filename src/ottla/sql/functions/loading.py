"""The user's functions, by the name of the place where they are."""

from __future__ import annotations

import importlib

from ottla.config.errors import UserError
from ottla.sql.functions.registry import Functions


def user_functions(place: str | None) -> Functions:
    """All functions, with those of the user's `module:attribute`. Raises UserError."""
    if not place:
        return Functions()
    module, _, attribute = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute or "functions")
    except (ImportError, AttributeError) as problem:
        raise UserError(f"the functions of {place} can't be loaded: {problem}") from problem
    if not isinstance(found, Functions):
        raise UserError(f"{place} is no ottla.sql.functions.registry.Functions")
    return found
