"""The registry's words for the loss of its topics."""

from __future__ import annotations

from ottla.replicated.loss import Loss


def way_out(topic: str, loss: Loss) -> str:
    """The loss of this topic and how to go on, for refused clients and for the log."""
    return (
        f"Topic {topic} {loss.value}. Schemas that were read are still served, and nothing is written: "
        "every instance of the registry must be restarted, and reads the topic of this name as it is then. "
        "To keep the schemas, first restore the topic from a mirror or a backup (1 partition, "
        "cleanup.policy=compact); without one the first instance makes an empty topic, and ids begin at 1"
    )


def way_out_of_keys(topic: str, loss: Loss) -> str:
    """The same for the topic of keys."""
    return (
        f"Topic {topic} {loss.value}. Keys that were read are still served, and none is written: every "
        "instance of the registry must be restarted, and reads the topic of this name as it is then. To keep "
        "the keys, first restore the topic from a mirror or a backup (1 partition, cleanup.policy=compact); "
        "without them the fields that they encrypted can't be read any more"
    )
