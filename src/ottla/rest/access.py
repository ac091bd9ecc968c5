"""What each operation asks of its caller's grants: read, write or admin of a topic, of all, or of some.

Topics that a body names are checked behind it, by `require_topics`. What belongs to no topic (brokers, groups
of consumers, access rules of the cluster) takes read of everything to be seen, and admin to be changed.
Groups are not told apart: a cluster that guards them is asked with the caller's own identity.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.types import Scope

from ottla.web.access_rules import UNLIMITED, Action
from ottla.web.callers import denied, grants_of

_OF_ANYBODY: Final = frozenset(("/", "/openapi.json", "/docs", "/v3/clusters", "/v3/clusters/{cluster_id}"))
_TOPIC_PARAMETERS: Final = ("topic", "topic_name")
_READING: Final = frozenset(("GET", "HEAD"))


class Extent(enum.Enum):
    """The things that the action of an operation is done to."""

    NOTHING = enum.auto()
    TOPIC = enum.auto()
    SOME = enum.auto()
    ALL = enum.auto()


@dataclass(frozen=True, slots=True)
class Need:
    """The action of an operation, and the things that it is done to."""

    action: Action
    extent: Extent


def need_of(method: str, path: str) -> Need:
    """What the operation of this method takes at this path of the routes."""
    action = Action.READ if method in _READING else Action.ADMIN
    if path in _OF_ANYBODY:
        return Need(Action.READ, Extent.NOTHING)
    if path.startswith("/consumers/"):
        return Need(Action.READ, Extent.SOME)
    if path.endswith("/topics"):
        return Need(action, Extent.SOME)
    if method == "POST" and (path.startswith("/topics/") or path.endswith(("/records", "/records:batch"))):
        return Need(Action.WRITE, Extent.TOPIC)
    of_topic = any(f"/{{{name}}}" in path for name in _TOPIC_PARAMETERS) and "/consumer-groups" not in path
    return Need(action, Extent.TOPIC if of_topic else Extent.ALL)


def require(scope: Scope, need: Need) -> None:
    """Raises ApiError 40301 if the caller may not have the operation done."""
    grants, action = grants_of(scope), need.action
    if grants is UNLIMITED:
        return
    match need.extent:
        case Extent.NOTHING:
            return
        case Extent.SOME if grants.allow_some(action):
            return
        case Extent.ALL if grants.allow_all(action):
            return
        case Extent.TOPIC:
            parameters = scope["path_params"]
            topic = next(parameters[name] for name in _TOPIC_PARAMETERS if name in parameters)
            if grants.allow(action, topic):
                return
            raise denied(scope, action, f"topic {topic}")
    raise denied(scope, action, "this")


def require_topics(request: Request, action: Action, topics: Iterable[str]) -> None:
    """Raises ApiError 40301 if the caller may not do this to one of the topics."""
    grants = grants_of(request.scope)
    for topic in topics:
        if not grants.allow(action, topic):
            raise denied(request.scope, action, f"topic {topic}")


def require_all(request: Request, action: Action) -> None:
    """Raises ApiError 40301 if the caller may not do this to every topic."""
    if not grants_of(request.scope).allow_all(action):
        raise denied(request.scope, action, "all topics")


def may_read(request: Request, topic: str) -> bool:
    """Whether the caller may read this topic."""
    return grants_of(request.scope).allow(Action.READ, topic)
