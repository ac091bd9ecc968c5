"""The error that a start of Spark ends with."""

from __future__ import annotations

from ottla.config.errors import UserError


class SparkError(UserError):
    """Spark could not be started; the message says why and where its log is."""
