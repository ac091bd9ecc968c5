"""Refusals of requests, with the HTTP statuses and sentences that Connect's REST API gives them."""

from __future__ import annotations


class Refused(Exception):
    """A request that can't be done; nothing was changed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def not_found(connector: str) -> Refused:
    """No connector has this name."""
    return Refused(404, f"Connector {connector} not found")


def unknown_connector(connector: str) -> Refused:
    """No connector has this name, in the sentence that changes of states have."""
    return Refused(404, f"Unknown connector {connector}")
