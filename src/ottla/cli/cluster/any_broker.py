"""The client of commands whose requests every broker answers or forwards, and the refusals of a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from ottla.cli.frame.cluster import CLIENT_ID
from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import ClusterRequests
from ottla.config.errors import UserError
from ottla.protocol.errors import ErrorCode


class CommandError(UserError):
    """The command can't do what the user asked for; one line that says why."""


@contextlib.asynccontextmanager
async def cluster_client(access: ClusterAccess) -> AsyncIterator[ClusterRequests]:
    """Requests to the cluster for the length of a command. Raises ClientOptionError."""
    client = ClusterRequests(access.with_client_id(CLIENT_ID))
    try:
        yield client
    finally:
        await client.close()


def require_success(error_code: int, message: str | None, subject: str = "") -> None:
    """Raises CommandError for an error code; its line begins with the subject, a topic's name say."""
    if error_code != ErrorCode.NONE:
        error = ErrorCode(error_code)
        prefix = f"{subject}: " if subject else ""
        raise CommandError(f"{prefix}{error.name}: {message or error.message}")
