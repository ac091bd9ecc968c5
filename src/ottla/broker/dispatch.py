"""Routes a frame to the handler of its API, and keeps the table of the APIs that this broker serves.

A handler is one of two kinds. Most take a decoded request and return (or await) a response message. The
two hot ones, Produce and Fetch, take and give bytes. Handler modules are imported at the first request
for one of their APIs: a broker starts without paying for those that nobody calls.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.connection import ClientConnection, CloseConnection, Reply
from ottla.broker.context import RequestContext
from ottla.broker.replies import frame_reply
from ottla.protocol.apis import ApiKey, advertised_versions, request_class, response_class
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.headers import decode_request_header
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

Handler = Callable[["Broker", RequestContext, Any], Message | Awaitable[Message]]
RawHandler = Callable[["Broker", RequestContext, memoryview], Reply | Awaitable[Reply]]

#: API -> module under ottla.broker.handlers. This is also what ApiVersions advertises.
FAMILIES: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.OFFSET_COMMIT: "offsets",
    ApiKey.OFFSET_FETCH: "offsets",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "groups",
    ApiKey.HEARTBEAT: "groups",
    ApiKey.LEAVE_GROUP: "groups",
    ApiKey.SYNC_GROUP: "groups",
    ApiKey.DESCRIBE_GROUPS: "groups",
    ApiKey.LIST_GROUPS: "groups",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DELETE_TOPICS: "topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "producer_ids",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "leader_epochs",
    ApiKey.ADD_PARTITIONS_TO_TXN: "transactions",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactions",
    ApiKey.END_TXN: "transactions",
    ApiKey.WRITE_TXN_MARKERS: "transaction_markers",
    ApiKey.TXN_OFFSET_COMMIT: "offsets",
    ApiKey.DESCRIBE_CONFIGS: "configs",
    ApiKey.ALTER_CONFIGS: "configs",
    ApiKey.DESCRIBE_LOG_DIRS: "log_dirs",
    ApiKey.CREATE_PARTITIONS: "partitions",
    ApiKey.DELETE_GROUPS: "groups",
    ApiKey.ELECT_LEADERS: "partitions",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "configs",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "partitions",
    ApiKey.OFFSET_DELETE: "offsets",
    ApiKey.DESCRIBE_QUORUM: "cluster",
    ApiKey.UPDATE_FEATURES: "cluster",
    ApiKey.DESCRIBE_CLUSTER: "cluster",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.LIST_CONFIG_RESOURCES: "configs",
    ApiKey.DESCRIBE_TRANSACTIONS: "transactions",
    ApiKey.LIST_TRANSACTIONS: "transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_groups",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_groups",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "metadata",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "streams_groups",
    ApiKey.STREAMS_GROUP_DESCRIBE: "streams_groups",
    ApiKey.SHARE_GROUP_HEARTBEAT: "share_groups",
    ApiKey.SHARE_GROUP_DESCRIBE: "share_groups",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "share_groups",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "share_groups",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "share_groups",
    ApiKey.SHARE_FETCH: "share_fetch",
    ApiKey.SHARE_ACKNOWLEDGE: "share_fetch",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "share_state",
    ApiKey.READ_SHARE_GROUP_STATE: "share_state",
    ApiKey.WRITE_SHARE_GROUP_STATE: "share_state",
    ApiKey.DELETE_SHARE_GROUP_STATE: "share_state",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "share_state",
}


class Dispatcher:
    """Decodes a request's header, finds its handler and frames its answer."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._handlers: dict[int, Handler] = {}
        self._raw_handlers: dict[int, RawHandler] = {}
        self._versions = {int(key): advertised_versions(key) for key in FAMILIES}

    def __call__(self, connection: ClientConnection, frame: memoryview) -> Reply | Awaitable[Reply]:
        """Handle one request. Raises CloseConnection or ProtocolError when there is no way to answer."""
        header, position = decode_request_header(frame)
        key, version = header.api_key, header.api_version
        context = RequestContext(
            key,
            version,
            header.correlation_id,
            header.client_id,
            connection.client_host,
            connection.listener_name,
            connection=connection,
        )
        served = self._versions.get(key)
        if served is None or not served[0] <= version <= served[1]:
            return self._unsupported(context)
        raw = self._raw_handlers.get(key)
        if raw is not None:
            return raw(self._broker, context, frame[position:])
        handler = self._handlers.get(key)
        if handler is None:
            self._load(ApiKey(key))
            return self(connection, frame)
        # Bytes behind a request are passed over, as Kafka does: librdkafka's Metadata v13 has some.
        request, _ = request_class(key).decode_prefix(frame, version, position)
        try:
            response = handler(self._broker, context, request)
        except KafkaError as error:
            return frame_reply(key, version, header.correlation_id, _error_response(key, error))
        if inspect.isawaitable(response):
            return _finish(context, response)
        return frame_reply(key, version, header.correlation_id, response)

    def _unsupported(self, context: RequestContext) -> Reply | Awaitable[Reply]:
        """KIP-511: an ApiVersions of an unknown version is answered in version 0, anything else hangs up."""
        if context.api_key != ApiKey.API_VERSIONS:
            raise CloseConnection(
                f"API key {context.api_key} version {context.api_version} is not served "
                f"(client id {context.client_id})"
            )
        api_versions = importlib.import_module("ottla.broker.handlers.api_versions")
        response = api_versions.unsupported_version()
        return frame_reply(ApiKey.API_VERSIONS, 0, context.correlation_id, response)

    def _load(self, key: ApiKey) -> None:
        module = importlib.import_module(f"ottla.broker.handlers.{FAMILIES[key]}")
        self._handlers.update(getattr(module, "HANDLERS", {}))
        self._raw_handlers.update(getattr(module, "RAW_HANDLERS", {}))
        if key not in self._handlers and key not in self._raw_handlers:
            raise RuntimeError(f"module {module.__name__} has no handler for {key.name}")


async def _finish(context: RequestContext, response: Awaitable[Message]) -> Reply:
    try:
        answer = await response
    except KafkaError as error:
        answer = _error_response(context.api_key, error)
    return frame_reply(context.api_key, context.api_version, context.correlation_id, answer)


def _error_response(key: int, error: KafkaError) -> Message:
    """An error that concerns the request as a whole, in the fields that the response has for it."""
    answer = response_class(key)()
    if not hasattr(answer, "error_code"):
        raise CloseConnection(f"{ApiKey(key).name} failed: {error}") from error
    answer.error_code = ErrorCode(error.code)
    if hasattr(answer, "error_message"):
        answer.error_message = str(error) or None
    return answer
