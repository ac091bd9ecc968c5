"""The key of a share partition, and the name by which its coordinator is found."""

from __future__ import annotations

import base64
import uuid
from typing import NamedTuple


class SharePartitionKey(NamedTuple):
    """One share partition: a share group and a partition of a topic."""

    group_id: str
    topic_id: uuid.UUID
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The key that FindCoordinator names: "group:topic id:partition", the id in Kafka's base 64."""
        text = base64.urlsafe_b64encode(self.topic_id.bytes).rstrip(b"=").decode("ascii")
        return f"{self.group_id}:{text}:{self.partition}"
