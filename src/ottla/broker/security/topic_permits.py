"""What the sender of a request may do with topics that it did not name, as coordinators come upon them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.authorization import Authorization
    from ottla.broker.network.context import RequestContext


class TopicsOfClient:
    """The sender of one request."""

    __slots__ = ("_authorization", "_context")

    def __init__(self, authorization: Authorization, context: RequestContext) -> None:
        self._authorization = authorization
        self._context = context

    def may_describe(self, topic: str) -> bool:
        """Whether the client may know of the topic."""
        return self._authorization.allows_unnamed(
            self._context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic
        )

    def may_create(self, topic: str) -> bool:
        """Whether the topic may be made for the client."""
        may, create = self._authorization.allows_unnamed, AclOperation.CREATE
        return may(self._context, create, ResourceType.CLUSTER, CLUSTER_NAME) or may(
            self._context, create, ResourceType.TOPIC, topic
        )
