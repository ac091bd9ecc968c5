"""Errors of ottla.testing: a server that does not start or stop, records that do not arrive."""

from __future__ import annotations


class ServerError(Exception):
    """A server did not start or stop as it should; the message ends with the last lines of its log."""


class KafkaTestError(AssertionError):
    """The cluster refused a request, did not answer in time, or has other records than the test asked for."""
