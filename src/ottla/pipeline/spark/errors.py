"""The error of a start of Spark that fails."""

from __future__ import annotations

from ottla.config.errors import UserError


class SparkError(UserError):
    """Spark could not be started; the message says why, and where the log is."""
