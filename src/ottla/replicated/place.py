"""How far an instance has replayed which topic; another one can wait until it is there too."""

from __future__ import annotations

import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """The offset of the last replayed record of each partition, -1 where there is none.

    The topic is told by its id, as others may have its name before and after it.
    """

    topic_id: uuid.UUID
    offsets: tuple[int, ...]

    def encode(self) -> str:
        """As a header's value."""
        return f"{self.topic_id}:{','.join(map(str, self.offsets))}"

    @classmethod
    def decode(cls, text: str) -> Place | None:
        """None for a text that is no place, such as an instance of another kind may send."""
        topic_id, _, offsets = text.partition(":")
        try:
            return cls(uuid.UUID(topic_id), tuple(map(int, offsets.split(","))))
        except ValueError:
            return None
