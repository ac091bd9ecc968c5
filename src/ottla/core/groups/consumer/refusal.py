"""A request that is answered with an error."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode


class Refused(Exception):
    """Why a request about a consumer group is not carried out; the message is for the client to read."""

    def __init__(self, error: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.error = error
        self.message = message
