"""Errors of a cluster's clients: settings that can't be used, answers that did not come."""

from __future__ import annotations

from ottla.config.errors import UserError


class ClientOptionError(UserError):
    """A property that a client cannot take, for its name or its value; the message says which."""


class ClusterError(UserError):
    """The cluster does not answer, or refuses; the message names the request.

    code: the error's number in Kafka, or in librdkafka where that is negative; None where there is none.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class NoSuchTopic(ClusterError):
    """The cluster has no topic of this name."""
