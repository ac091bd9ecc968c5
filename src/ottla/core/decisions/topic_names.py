"""The rules for topic names: which are valid, and which would collide in metrics."""

from __future__ import annotations

from collections.abc import Container

from ottla.protocol.errors import InvalidTopicException

MAX_NAME_LENGTH = 249
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
AUDIT_TOPIC = "__ottla_audit_log"
"""ottla's own audit log; security/audit_chain.py has what lies in it."""
INTERNAL_TOPICS = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC, AUDIT_TOPIC})
INTERNAL_PREFIX = "__"
"""The names of internal topics begin with it; no share group may name such a topic for its dead letters."""
ADMIN_CLIENT_ID = "__admin_client"
"""The id of the one client that may produce to internal topics, as in Kafka."""

_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def validate_topic_name(name: str) -> None:
    """Raise InvalidTopicException, with the reason, for an invalid name."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise InvalidTopicException(problem)


def topic_name_problem(name: str) -> str | None:
    """The reason why a name is invalid, or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length "
            f"{MAX_NAME_LENGTH}"
        )
    if not _ALLOWED.issuperset(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def normalized(name: str) -> str:
    """A name as metrics show it: without the difference between a dot and an underscore."""
    return name.replace(".", "_")


def may_collide(name: str) -> bool:
    """Whether another name could look the same in metrics."""
    return "." in name or "_" in name


def is_internal(name: str, internal: Container[str] = INTERNAL_TOPICS) -> bool:
    """Whether clients are told that the topic is internal to the cluster."""
    return name in internal
