"""The question that handlers ask before they do something: may the sender of this request do that?

`Authorization` is the narrow protocol that they are given. A node without an authorizer has the one that
allows everything (`OpenAuthorization`); the other is in `security/acl_authorization.py`.

Refusals are told as Apache Kafka tells them, and so that no name leaks: a name that the client gave is
refused whether it exists or not, and resources that the client did not name are left out silently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from ottla.protocol.errors import SecurityDisabled

if TYPE_CHECKING:
    from ottla.broker.network.context import RequestContext
    from ottla.core.security.acls import Acl, AclFilter, AclOperation, ResourceType


#: The field of authorized operations in the answer to a client that did not ask for them.
NOT_ASKED: Final = -(2**31)
_NOTHING: Final[frozenset[str]] = frozenset()


class Authorization(Protocol):
    """Decides what the sender of a request may do."""

    @property
    def enforced(self) -> bool:
        """Whether anything is ever refused; hot paths ask nothing else while it is not."""
        ...

    def allows(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the sender may do the operation on a resource that it named. A refusal is logged."""
        ...

    def allows_unnamed(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """The same for a resource that the sender did not name, or as one of several ways in: not logged."""
        ...

    def allows_on_any(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether the sender may do the operation on some resource of the type (KIP-679)."""
        ...

    def refused(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
    ) -> Collection[str]:
        """The resources among those that the sender named on which it may not do the operation."""
        ...

    def require_on_cluster(self, context: RequestContext, operation: AclOperation) -> None:
        """Raise ClusterAuthorizationFailed if the sender may not do the operation on the cluster."""
        ...

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """The operations that the sender may do on the resource, as bits by their numbers (KIP-430)."""
        ...

    def matching(self, acl_filter: AclFilter) -> Iterator[Acl]:
        """The ACLs that a filter selects. Raises SecurityDisabled on a node without an authorizer."""
        ...


class OpenAuthorization:
    """Every client may do everything."""

    __slots__ = ()

    enforced: Final = False

    def allows(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Yes."""
        return True

    allows_unnamed = allows

    def allows_on_any(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Yes."""
        return True

    def refused(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
    ) -> Collection[str]:
        """None of them."""
        return _NOTHING

    def require_on_cluster(self, context: RequestContext, operation: AclOperation) -> None:
        """Nothing is refused."""

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """All that the kind of resource has."""
        from ottla.core.security.acls import OPERATIONS_OF

        return OPERATIONS_OF[resource_type]

    def matching(self, acl_filter: AclFilter) -> Iterator[Acl]:
        """Raises SecurityDisabled."""
        raise SecurityDisabled("No Authorizer is configured on the broker")
