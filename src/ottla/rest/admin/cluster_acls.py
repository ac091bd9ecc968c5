"""Reads, adds and deletes access rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls_request import DescribeAclsRequest
from ottla.rest.admin.cluster_admin import ClusterAdmin
from ottla.rest.admin.model import Acl, AclOperation, AclPatternType, AclPermission, ResourceType
from ottla.rest.kafka_errors import raise_for


async def find_acls(admin: ClusterAdmin, wanted: Acl) -> list[Acl]:
    """The rules that a filter matches. Raises ApiError."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    response = await admin.ask(request)
    raise_for(response.error_code, response.error_message)
    return _sorted(
        _acl(resource.resource_type, resource.resource_name, resource.pattern_type, acl)
        for resource in response.resources
        for acl in resource.acls
    )


async def create_acls(admin: ClusterAdmin, acls: Sequence[Acl]) -> None:
    """Add rules; rules that exist stay. Raises ApiError for the first that can't be added."""
    creations = [
        AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name or "",
            resource_pattern_type=acl.pattern_type,
            principal=acl.principal or "",
            host=acl.host or "",
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    for result in (await admin.ask(CreateAclsRequest(creations=creations))).results:
        raise_for(result.error_code, result.error_message)


async def delete_acls(admin: ClusterAdmin, wanted: Acl) -> list[Acl]:
    """Delete the rules that a filter matches; returns them. Raises ApiError."""
    matching = DeleteAclsFilter(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    deleted: list[Acl] = []
    for result in (await admin.ask(DeleteAclsRequest(filters=[matching]))).filter_results:
        raise_for(result.error_code, result.error_message)
        for acl in result.matching_acls:
            raise_for(acl.error_code, acl.error_message)
            deleted.append(_acl(acl.resource_type, acl.resource_name, acl.pattern_type, acl))
    return _sorted(deleted)


def _acl(resource_type: int, resource_name: str, pattern_type: int, acl: Any) -> Acl:
    return Acl(
        ResourceType(resource_type),
        resource_name,
        AclPatternType(pattern_type),
        acl.principal,
        acl.host,
        AclOperation(acl.operation),
        AclPermission(acl.permission_type),
    )


def _sorted(acls: Any) -> list[Acl]:
    return sorted(
        acls, key=lambda acl: (acl.resource_type, acl.resource_name, acl.principal, acl.operation, acl.host)
    )
