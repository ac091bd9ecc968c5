"""CreateTopics (API key 19), versions 2-7, and DeleteTopics (20), versions 1-6.

What is created and refused, and since which version, is told in `ottla.core.metadata.topics`. The request's
timeout is not used: the answer comes when the change is durable, which is at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context import RequestContext
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.create_topics_request import CreateTopicsRequest
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics_response import DeleteTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def create_topics(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Errors are told topic by topic."""
    return await broker.controller.create_topics(request)


async def delete_topics(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Errors are told topic by topic."""
    return await broker.controller.delete_topics(request, context.api_version)


HANDLERS = {ApiKey.CREATE_TOPICS: create_topics, ApiKey.DELETE_TOPICS: delete_topics}
