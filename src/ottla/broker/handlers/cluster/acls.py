"""DescribeAcls (API key 29), CreateAcls (30) and DeleteAcls (31), versions 1 to 3.

A node describes the ACLs as it has applied them, a broker passes changes on. The rules are in
`ottla.core.decisions.acl_changes`. On a node without an authorizer all are answered SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers.cluster.forwarding import forward
from ottla.broker.network.context import RequestContext
from ottla.broker.system_randomness import SystemRandomness
from ottla.core.decisions import acl_changes
from ottla.core.security.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import SecurityDisabled
from ottla.protocol.messages.create_acls_request import CreateAclsRequest
from ottla.protocol.messages.create_acls_response import CreateAclsResponse
from ottla.protocol.messages.delete_acls_request import DeleteAclsRequest
from ottla.protocol.messages.delete_acls_response import DeleteAclsResponse
from ottla.protocol.messages.describe_acls_request import DescribeAclsRequest
from ottla.protocol.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


def describe_acls(node: Node, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """The ACLs that the filter selects, by resource pattern."""
    node.authorization.require_on_cluster(context, AclOperation.DESCRIBE)
    wanted = AclFilter(
        ResourceType(request.resource_type_filter),
        request.resource_name_filter,
        PatternType(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        AclOperation(request.operation),
        AclPermission(request.permission_type),
    )
    resources: dict[tuple[ResourceType, PatternType, str], DescribeAclsResource] = {}
    for acl in node.authorization.matching(wanted):
        key = (acl.resource_type, acl.pattern_type, acl.resource_name)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[],
            )
        resource.acls.append(_description(acl))
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


def _description(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
    )


async def create_acls(node: Node, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Each ACL has an answer of its own."""
    _require_authorizer(node, context)
    return await node.controller.submit(
        lambda image: acl_changes.create_acls(image, request, SystemRandomness())
    )


async def delete_acls(node: Node, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Each filter has an answer of its own, with the ACLs that it removed."""
    _require_authorizer(node, context)
    return await node.controller.submit(lambda image: acl_changes.delete_acls(image, request))


def _require_authorizer(node: Node, context: RequestContext) -> None:
    node.authorization.require_on_cluster(context, AclOperation.ALTER)
    if not node.authorization.enforced:
        raise SecurityDisabled("No Authorizer is configured.")


HANDLERS = {
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.CREATE_ACLS: forward,
    ApiKey.DELETE_ACLS: forward,
}
CONTROLLER_HANDLERS = {
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
}
