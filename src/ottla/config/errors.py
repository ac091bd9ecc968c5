"""Errors that a user causes: their messages say what is wrong and what to do."""

from __future__ import annotations


class UserError(Exception):
    """The command can't do its work; the message is for the user, without a traceback of ours.

    trace: the traceback of the user's own code, where that has failed.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


class UsageError(UserError):
    """An option or a combination of options that can't be; the message says which and why."""


class ConfigError(UserError):
    """A setting or a properties file that can't be used; one line that says which, where and why."""
