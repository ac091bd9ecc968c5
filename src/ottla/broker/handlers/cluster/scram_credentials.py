"""DescribeUserScramCredentials (API key 50) and AlterUserScramCredentials (51), version 0 (KIP-554).

A broker answers the first from its metadata and passes the second on. The rules are in
`ottla.core.decisions.scram_credentials`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers.cluster.forwarding import forward
from ottla.broker.network.context import RequestContext
from ottla.core.decisions.scram_credentials import alter_scram_credentials, describe_scram_credentials
from ottla.core.security.acls import AclOperation
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from ottla.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from ottla.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from ottla.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


def describe(
    node: Node, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answered from the metadata that is applied here."""
    node.authorization.require_on_cluster(context, AclOperation.DESCRIBE)
    return describe_scram_credentials(node.image, request)


async def alter(
    node: Node, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Errors are told user by user."""
    node.authorization.require_on_cluster(context, AclOperation.ALTER)
    return await node.controller.submit(lambda image: alter_scram_credentials(image, request))


HANDLERS = {
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: forward,
}
CONTROLLER_HANDLERS = {
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter,
}
