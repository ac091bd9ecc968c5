"""The errors of services: one that answers a request, and one that ends a service."""

from __future__ import annotations

from ottla.config.errors import UserError


class ApiError(Exception):
    """A request's answer `{"error_code": …, "message": …}` with the HTTP status `status`.

    `error_code` is the status with two digits more where the API numbers its errors (404 and 40401).
    """

    def __init__(self, status: int, error_code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message


class ServiceError(UserError):
    """A service can't start or go on; one line that says why and what to do."""
