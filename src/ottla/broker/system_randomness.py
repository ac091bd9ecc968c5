"""Random choices for the core, from the system."""

from __future__ import annotations

import random
import uuid


class SystemRandomness:
    """Choices that can't be guessed."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        return self._random.randrange(limit)

    def new_id(self) -> uuid.UUID:
        """A new id; one whose text does not begin with a dash, which command lines mistake."""
        while True:
            candidate = uuid.UUID(int=self._random.getrandbits(128), version=4)
            # The first six bits make the first character: 62 is "-" in Kafka's base64.
            if candidate.int >> 122 != 62:
                return candidate
