"""The settings of the broker and the cluster for transactions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Settings in units of their names; `transaction_version`
    is the finalized level of transaction.version.
    """

    max_timeout_ms: int = 900_000
    abort_interval_ms: int = 10_000
    expiration_ms: int = 604_800_000
    expiry_interval_ms: int = 3_600_000
    commit_timeout_ms: int = 5_000
    two_phase_commit_enabled: bool = False
    transaction_version: int = 2
