"""Decisions by the ACLs in the metadata, as this node has applied it.

Until the node has the metadata that its cluster had when it started, only super users may do something: ACLs
that are not read yet may deny, and without any, `allow.everyone.if.no.acl.found` would let everyone in.
(Apache Kafka's authorizer is "not ready" meanwhile.)

A change of an ACL counts with the next decision on this node, open connections included. Decisions are made
where they are needed, with a bounded cache in core/security/authorizer.py.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.core.decisions.acl_changes import acl_of_record
from ottla.core.security.acls import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    Acl,
    AclFilter,
    AclOperation,
    ResourceType,
)
from ottla.core.security.authorizer import ALL_OPERATIONS, Authorizer
from ottla.protocol.errors import ClusterAuthorizationFailed

if TYPE_CHECKING:
    from ottla.broker.network.context import RequestContext
    from ottla.broker.network.flood_log import FloodLog
    from ottla.core.image.image import MetadataDelta, MetadataImage

_IPV6_GROUPS: Final = 8


class AclAuthorization:
    """The ACLs of the cluster, and the decisions by them. Used on the event loop only."""

    enforced: Final = True

    def __init__(
        self,
        super_users: Collection[str],
        *,
        allow_if_no_acl: bool,
        image: MetadataImage,
        flood_log: FloodLog,
    ) -> None:
        """super_users: principals as texts. image: the node's, which changes in place."""
        self._super_users = super_users
        self._allow_if_no_acl = allow_if_no_acl
        self._image = image
        self._flood_log = flood_log
        self._reads_all = False
        self._authorizer = Authorizer(super_users)

    def begin(self) -> None:
        """The image is complete: decide by its ACLs from now on."""
        if self._reads_all:
            return
        self._reads_all = True
        self._authorizer = Authorizer(self._super_users, allow_if_no_acl=self._allow_if_no_acl)
        for acl_id, record in self._image.acls.items():
            self._authorizer.add(acl_id, acl_of_record(record))

    def follow(self, delta: MetadataDelta) -> None:
        """Take over the ACLs that a change of the image added and removed."""
        if not self._reads_all:
            return
        for acl_id in delta.changed_acls:
            record = self._image.acls.get(acl_id)
            if record is None:
                self._authorizer.remove(acl_id)
            else:
                self._authorizer.add(acl_id, acl_of_record(record))

    # -- decisions --------------------------------------------------------------------------------------

    def allows(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the sender may do it; a refusal is logged."""
        if self._allowed(context, resource_type, name) >> operation & 1:
            return True
        self._tell(context, operation, resource_type, name)
        return False

    def allows_unnamed(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the sender may do it."""
        return bool(self._allowed(context, resource_type, name) >> operation & 1)

    def allows_on_any(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether the sender may do it on some resource of the type."""
        session = context.session
        return session.of_this_node or self._authorizer.authorize_by_resource_type(
            session.principal, java_host(session.client_host), operation, resource_type
        )

    def refused(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
    ) -> Collection[str]:
        """The resources on which the sender may not do it; each is asked about once."""
        return {
            name for name in dict.fromkeys(names) if not self.allows(context, operation, resource_type, name)
        }

    def require_on_cluster(self, context: RequestContext, operation: AclOperation) -> None:
        """Raise ClusterAuthorizationFailed if the sender may not do it."""
        if not self.allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME):
            raise ClusterAuthorizationFailed()

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """The operations of the kind of resource that the sender may do on this one."""
        return self._allowed(context, resource_type, name) & OPERATIONS_OF[resource_type]

    def matching(self, acl_filter: AclFilter) -> Iterator[Acl]:
        """The ACLs that the filter selects, as this node has applied them."""
        return self._authorizer.matching(acl_filter)

    def _allowed(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        session = context.session
        if session.of_this_node:
            return ALL_OPERATIONS
        host = session.client_host
        return self._authorizer.allowed_operations(
            session.principal, java_host(host) if ":" in host else host, resource_type, name
        )

    def _tell(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> None:
        session = context.session
        self._flood_log.warn(
            "authorization",
            f"refused principal={session.principal} client={session.client_host} "
            f"operation={operation.name} resource={resource_type.name}:{name!r} api={context.api_key}",
        )


@functools.lru_cache(maxsize=1_000)
def java_host(host: str) -> str:
    """A client's address as Java prints it, which is how ACLs name hosts: IPv6 in eight groups."""
    if ":" not in host:
        return host
    address, percent, scope = host.partition("%")
    packed = socket.inet_pton(socket.AF_INET6, address)
    if packed.startswith(bytes(10) + b"\xff\xff"):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    groups = (int.from_bytes(packed[2 * at : 2 * at + 2], "big") for at in range(_IPV6_GROUPS))
    return ":".join(f"{group:x}" for group in groups) + percent + scope
