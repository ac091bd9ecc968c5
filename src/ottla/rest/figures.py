"""The figures of the REST Proxy's producers and consumer instances, those of all callers together."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field


class ApiVersion(enum.StrEnum):
    """The API by which records are produced."""

    V2 = "v2"
    V3 = "v3"


@dataclass(slots=True)
class RestFigures:
    """Counts since the service's start; they outlive the clients of a caller. Changed on the event loop.

    produced, failed: records by API. made, expired: consumer instances. reads_active: reads that collect now.
    """

    produced: Counter[ApiVersion] = field(default_factory=Counter)
    failed: Counter[ApiVersion] = field(default_factory=Counter)
    producers_replaced: int = 0
    made: int = 0
    expired: int = 0
    reads: int = 0
    reads_active: int = 0
    consumed: int = 0
    commits: int = 0

    def delivered(self, api: ApiVersion, produced: int, failed: int) -> None:
        """Count the records of a request once each of them was acknowledged or given up."""
        self.produced[api] += produced
        self.failed[api] += failed
