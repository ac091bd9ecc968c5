"""A request that is answered with an error."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode


class Refused(Exception):
    """The error and the message in the answer to a request about a consumer group."""

    def __init__(self, error: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.error = error
        self.message = message
