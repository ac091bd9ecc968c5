"""Errors of those who reach a cluster: settings that cannot be, answers that did not come."""

from __future__ import annotations

from ottla.config.errors import UserError


class ClientOptionError(UserError):
    """A property that a client cannot be given, by its name or for its value; the message says which."""


class ClusterError(UserError):
    """The cluster does not answer, or not as asked; the message says what was tried."""


class NoSuchTopic(ClusterError):
    """The cluster has no topic of this name."""
