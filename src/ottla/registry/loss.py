"""How the registry's topic can be lost while an instance runs, and what is said of it."""

from __future__ import annotations

import enum


class Loss(enum.Enum):
    """What became of the topic that the image was read from."""

    DELETED = "was deleted"
    REPLACED = "was deleted, and another topic of this name was made"
    CUT = "has lost records that this instance had read"


class TopicLost(Exception):
    """The topic that the image was read from is gone: nothing more is read or written."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.value)
        self.loss = loss


def way_out(topic: str, loss: Loss) -> str:
    """What happened and how to go on, for whoever wanted to write and for the log."""
    return (
        f"Topic {topic} {loss.value}. Schemas that were read are still served, and nothing is written: "
        "every instance of the registry must be restarted, and reads the topic of this name as it is then. "
        "To keep the schemas, first restore the topic from a mirror or a backup (1 partition, "
        "cleanup.policy=compact); without one the first instance makes an empty topic, and ids begin at 1"
    )
