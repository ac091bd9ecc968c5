"""When a run that failed is started again by itself: pauses that grow, and an end of the attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FIRST_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 300_000
WINDOW_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """most: restarts within WINDOW_MS; 0: none, as with Java's workers. first_pause_ms doubles each time."""

    most: int = 10
    first_pause_ms: int = FIRST_PAUSE_MS
    longest_pause_ms: int = LONGEST_PAUSE_MS


@dataclass(slots=True)
class Failures:
    """The failures of one connector or task within the last WINDOW_MS, at most as many as the policy has."""

    times_ms: list[int] = field(default_factory=list)

    def pause_ms(self, policy: RestartPolicy, now_ms: int) -> int | None:
        """Count a failure. The pause before the next start, or None: the run stays FAILED."""
        self.times_ms = [each for each in self.times_ms if each > now_ms - WINDOW_MS]
        if len(self.times_ms) >= policy.most:
            return None
        self.times_ms.append(now_ms)
        doubled: int = policy.first_pause_ms << (len(self.times_ms) - 1)
        return min(doubled, policy.longest_pause_ms)

    def forget(self) -> None:
        """A user has intervened: all attempts are there again."""
        self.times_ms = []
