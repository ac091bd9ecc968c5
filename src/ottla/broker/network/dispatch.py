"""Routes a frame to the handler of its API, and keeps the tables of the APIs that this node serves.

There are two tables: what clients and brokers ask at a broker's listeners, and what nodes (and an
administrator, KIP-919) ask at a controller's. Many APIs are in both; a module then has `HANDLERS` for the
first and `CONTROLLER_HANDLERS` for the second: a broker passes a change on, the active controller makes it.

A handler is one of two kinds. Most take a decoded request and return (or await) a response message. The
two hot ones, Produce and Fetch, take and give bytes (`RAW_HANDLERS`). Handler modules are imported at the
first request for one of their APIs: a broker starts without paying for those that nobody calls.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.broker.network.connection import ClientConnection, CloseConnection, Reply
from ottla.broker.network.context import RequestContext
from ottla.broker.network.error_answers import error_answer
from ottla.broker.network.replies import frame_reply
from ottla.protocol.apis import ApiKey, advertised_versions, request_class
from ottla.protocol.errors import KafkaError
from ottla.protocol.headers import decode_request_header
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

Handler = Callable[["Broker", RequestContext, Any], Message | Awaitable[Message]]
RawHandler = Callable[["Broker", RequestContext, memoryview], Reply | Awaitable[Reply]]

#: API -> module under ottla.broker.handlers, at a broker's listeners. Also what ApiVersions advertises there.
FAMILIES: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "records.produce",
    ApiKey.FETCH: "records.fetch",
    ApiKey.LIST_OFFSETS: "records.list_offsets",
    ApiKey.METADATA: "cluster.metadata",
    ApiKey.OFFSET_COMMIT: "coordinators.offsets",
    ApiKey.OFFSET_FETCH: "coordinators.offsets",
    ApiKey.FIND_COORDINATOR: "coordinators.find_coordinator",
    ApiKey.JOIN_GROUP: "coordinators.groups",
    ApiKey.HEARTBEAT: "coordinators.groups",
    ApiKey.LEAVE_GROUP: "coordinators.groups",
    ApiKey.SYNC_GROUP: "coordinators.groups",
    ApiKey.DESCRIBE_GROUPS: "coordinators.groups",
    ApiKey.LIST_GROUPS: "coordinators.groups",
    ApiKey.API_VERSIONS: "cluster.api_versions",
    ApiKey.CREATE_TOPICS: "cluster.topics",
    ApiKey.DELETE_TOPICS: "cluster.topics",
    ApiKey.DELETE_RECORDS: "records.delete_records",
    ApiKey.INIT_PRODUCER_ID: "coordinators.producer_ids",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "records.leader_epochs",
    ApiKey.ADD_PARTITIONS_TO_TXN: "coordinators.transactions",
    ApiKey.ADD_OFFSETS_TO_TXN: "coordinators.transactions",
    ApiKey.END_TXN: "coordinators.transactions",
    ApiKey.WRITE_TXN_MARKERS: "records.transaction_markers",
    ApiKey.TXN_OFFSET_COMMIT: "coordinators.offsets",
    ApiKey.DESCRIBE_CONFIGS: "cluster.configs",
    ApiKey.ALTER_CONFIGS: "cluster.configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "cluster.log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "cluster.log_dirs",
    ApiKey.CREATE_PARTITIONS: "cluster.partitions",
    ApiKey.DELETE_GROUPS: "coordinators.groups",
    ApiKey.ELECT_LEADERS: "cluster.partitions",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "cluster.configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "cluster.partitions",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "cluster.partitions",
    ApiKey.OFFSET_DELETE: "coordinators.offsets",
    ApiKey.DESCRIBE_QUORUM: "cluster.quorum",
    ApiKey.UPDATE_FEATURES: "cluster.cluster",
    ApiKey.DESCRIBE_CLUSTER: "cluster.cluster",
    ApiKey.DESCRIBE_PRODUCERS: "records.describe_producers",
    ApiKey.LIST_CONFIG_RESOURCES: "cluster.configs",
    ApiKey.UNREGISTER_BROKER: "cluster.nodes",
    ApiKey.DESCRIBE_TRANSACTIONS: "coordinators.transactions",
    ApiKey.LIST_TRANSACTIONS: "coordinators.transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "coordinators.consumer_groups",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "coordinators.consumer_groups",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "cluster.metadata",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "coordinators.streams_groups",
    ApiKey.STREAMS_GROUP_DESCRIBE: "coordinators.streams_groups",
    ApiKey.SHARE_GROUP_HEARTBEAT: "coordinators.share_groups",
    ApiKey.SHARE_GROUP_DESCRIBE: "coordinators.share_groups",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "coordinators.share_groups",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "coordinators.share_groups",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "coordinators.share_groups",
    ApiKey.SHARE_FETCH: "records.share_fetch",
    ApiKey.SHARE_ACKNOWLEDGE: "records.share_fetch",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "coordinators.share_state",
    ApiKey.READ_SHARE_GROUP_STATE: "coordinators.share_state",
    ApiKey.WRITE_SHARE_GROUP_STATE: "coordinators.share_state",
    ApiKey.DELETE_SHARE_GROUP_STATE: "coordinators.share_state",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "coordinators.share_state",
    ApiKey.ADD_RAFT_VOTER: "cluster.quorum",
    ApiKey.REMOVE_RAFT_VOTER: "cluster.quorum",
}


#: The same for a controller's listeners; the modules' `CONTROLLER_HANDLERS`.
CONTROLLER_FAMILIES: dict[ApiKey, str] = {
    ApiKey.FETCH: "cluster.quorum",
    ApiKey.API_VERSIONS: "cluster.api_versions",
    ApiKey.CREATE_TOPICS: "cluster.topics",
    ApiKey.DELETE_TOPICS: "cluster.topics",
    ApiKey.CREATE_PARTITIONS: "cluster.partitions",
    ApiKey.ELECT_LEADERS: "cluster.partitions",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "cluster.partitions",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "cluster.partitions",
    ApiKey.DESCRIBE_CONFIGS: "cluster.configs",
    ApiKey.ALTER_CONFIGS: "cluster.configs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "cluster.configs",
    ApiKey.VOTE: "cluster.quorum",
    ApiKey.BEGIN_QUORUM_EPOCH: "cluster.quorum",
    ApiKey.END_QUORUM_EPOCH: "cluster.quorum",
    ApiKey.DESCRIBE_QUORUM: "cluster.quorum",
    ApiKey.FETCH_SNAPSHOT: "cluster.quorum",
    ApiKey.ADD_RAFT_VOTER: "cluster.quorum",
    ApiKey.REMOVE_RAFT_VOTER: "cluster.quorum",
    ApiKey.UPDATE_RAFT_VOTER: "cluster.quorum",
    ApiKey.UPDATE_FEATURES: "cluster.cluster",
    ApiKey.DESCRIBE_CLUSTER: "cluster.cluster",
    ApiKey.ENVELOPE: "cluster.envelopes",
    ApiKey.ALLOCATE_PRODUCER_IDS: "coordinators.producer_ids",
    ApiKey.BROKER_REGISTRATION: "cluster.nodes",
    ApiKey.BROKER_HEARTBEAT: "cluster.nodes",
    ApiKey.CONTROLLER_REGISTRATION: "cluster.nodes",
    ApiKey.UNREGISTER_BROKER: "cluster.nodes",
    ApiKey.ALTER_PARTITION: "cluster.replicas",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "cluster.replicas",
}


class HandlerTable:
    """The handlers of one table of families, each imported when it is first asked for."""

    def __init__(self, families: Mapping[ApiKey, str], attribute: str) -> None:
        self._families = families
        self._attribute = attribute
        self.loaded: dict[int, Handler] = {}
        self.loaded_raw: dict[int, RawHandler] = {}

    def load(self, key: int) -> None:
        """Import the handler of an API of the table."""
        api_key = ApiKey(key)
        module = importlib.import_module(f"ottla.broker.handlers.{self._families[api_key]}")
        handlers = getattr(module, self._attribute, {})
        raw_handlers = getattr(module, f"RAW_{self._attribute}", {})
        if api_key in raw_handlers:
            self.loaded_raw[key] = raw_handlers[api_key]
        elif api_key in handlers:
            self.loaded[key] = handlers[api_key]
        else:
            raise RuntimeError(f"module {module.__name__} has no {self._attribute} for {api_key.name}")

    def handler(self, key: int) -> Handler:
        """The handler of an API that takes a decoded request."""
        if key not in self.loaded:
            self.load(key)
        return self.loaded[key]


class Dispatcher:
    """Decodes a request's header, finds its handler and frames its answer; one for each kind of listener."""

    def __init__(self, broker: Broker, *, for_controller: bool = False) -> None:
        self._broker = broker
        families = CONTROLLER_FAMILIES if for_controller else FAMILIES
        self._table = HandlerTable(families, "CONTROLLER_HANDLERS" if for_controller else "HANDLERS")
        self._handlers = self._table.loaded
        self._raw_handlers = self._table.loaded_raw
        self._versions = {int(key): advertised_versions(key) for key in families}

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
            self._table.load(key)
            return self(connection, frame)
        # Bytes behind a request are passed over, as Kafka does: librdkafka's Metadata v13 has some.
        request, _ = request_class(key).decode_prefix(frame, version, position)
        try:
            response = handler(self._broker, context, request)
        except KafkaError as error:
            return frame_reply(key, version, header.correlation_id, _error_response(key, request, error))
        if inspect.isawaitable(response):
            return _finish(context, request, response)
        return frame_reply(key, version, header.correlation_id, response)

    def _unsupported(self, context: RequestContext) -> Reply | Awaitable[Reply]:
        """KIP-511: an ApiVersions of an unknown version is answered in version 0, anything else hangs up."""
        if context.api_key != ApiKey.API_VERSIONS:
            raise CloseConnection(
                f"API key {context.api_key} version {context.api_version} is not served "
                f"(client id {context.client_id})"
            )
        api_versions = importlib.import_module("ottla.broker.handlers.cluster.api_versions")
        response = api_versions.unsupported_version()
        return frame_reply(ApiKey.API_VERSIONS, 0, context.correlation_id, response)


async def _finish(context: RequestContext, request: Message, response: Awaitable[Message]) -> Reply:
    try:
        answer = await response
    except KafkaError as error:
        answer = _error_response(context.api_key, request, error)
    return frame_reply(context.api_key, context.api_version, context.correlation_id, answer)


def _error_response(key: int, request: Message, error: KafkaError) -> Message:
    answer = error_answer(key, request, error)
    if answer is None:
        raise CloseConnection(f"{ApiKey(key).name} failed: {error}") from error
    return answer
