"""Errors of a Java worker."""

from __future__ import annotations

from ottla.config.errors import UserError


class JavaConnectError(UserError):
    """The Java worker can't be started, or gives no answer; the message says why."""
