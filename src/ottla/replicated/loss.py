"""How a state's topic can be lost while an instance runs."""

from __future__ import annotations

import enum


class Loss(enum.Enum):
    """The fate of the topic that the image was read from."""

    DELETED = "was deleted"
    REPLACED = "was deleted, and another topic of this name was made"
    CUT = "has lost records that this instance had read, or had yet to read"


class TopicLost(Exception):
    """The topic that the image was read from is gone: nothing more is read or written."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.value)
        self.loss = loss
