"""Why an instance can't start, and how a write can fail."""

from __future__ import annotations

from ottla.config.errors import UserError


class StateError(UserError):
    """An instance can't start or go on with its state; one line that says why and what to do."""


class NotPrimary(Exception):
    """Writes are not decided at this instance; nothing of this write was stored."""


class Fenced(Exception):
    """Another instance has become the primary; nothing of this write was stored."""


class TooLarge(Exception):
    """The broker takes no record of this size; nothing of this write was stored."""


class Unstored(Exception):
    """A write failed, and whether it was stored is not known."""
