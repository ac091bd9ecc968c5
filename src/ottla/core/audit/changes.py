"""The changes that administrative requests make, as the audit log tells them: one event a resource.

A change is told if the answer says that it was made, or if it is not known whether it was (the node stopped
being the controller meanwhile). Refusals for want of permission are events of their own; other errors change
nothing. No secret is ever in an event: passwords, salts and keys of SCRAM, HMACs of delegation tokens, and
values of settings that are secret or not known are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from ottla.core.decisions.config_changes import TABLES, Operation
from ottla.core.image.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from ottla.core.security.acls import AclOperation, AclPermission, PatternType, ResourceType
from ottla.core.security.sasl.scram import ScramMechanism
from ottla.core.settings.broker_settings import without_listener
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.security.audit_chain import ADMINISTRATION, SUCCESS, UNKNOWN, AuditEvent, Json

MAX_TEXT: Final = 256
"""Characters of a text; a longer one is cut."""
MAX_LIST: Final = 100
"""Elements of a list, and settings of a resource; the number of those left out is told."""
#: The transaction timeout with which admin clients fence a producer and end its transaction.
FENCING_TIMEOUT_MS: Final = 1

CLUSTER: Final = "CLUSTER"
TOPIC: Final = "TOPIC"
GROUP: Final = "GROUP"
USER: Final = "USER"
TOKEN: Final = "DELEGATION_TOKEN"
TRANSACTIONAL_ID: Final = "TRANSACTIONAL_ID"
PRODUCER_ID: Final = "PRODUCER_ID"
_CONFIG_RESOURCES: Final = {
    TOPIC_RESOURCE: TOPIC,
    BROKER_RESOURCE: "BROKER",
    BROKER_LOGGER_RESOURCE: "BROKER_LOGGER",
    CLIENT_METRICS_RESOURCE: "CLIENT_METRICS",
    GROUP_RESOURCE: GROUP,
}
CREATE: Final = "CREATE"
DELETE: Final = "DELETE"
ALTER: Final = "ALTER"
ALTER_CONFIGS: Final = "ALTER_CONFIGS"
HIDDEN: Final = "[hidden]"

Details: TypeAlias = dict[str, Json]


class Change(NamedTuple):
    """One resource of a request. error: of the answer; None if it is not known."""

    operation: str
    resource_type: str
    resource_name: str
    details: Details
    error: int | None = 0


class Before(NamedTuple):
    """What a request means, found out before it is handled."""

    topic_names: Mapping[UUID, str] = {}
    token_id: str | None = None


#: Errors of changes that may still have been made.
_UNKNOWN_OUTCOMES: Final = (None, ErrorCode.REQUEST_TIMED_OUT)

Describe: TypeAlias = Callable[[Any, Any, Before], Iterable[Change]]


def changes_of(
    describe: Describe, api: ApiKey, request: Any, response: Any | None, before: Before
) -> Iterator[AuditEvent]:
    """The events of an administrative request. response: None if it is not known what has become of it."""
    if getattr(request, "validate_only", False):
        return
    for change in describe(request, response, before):
        is_unknown = change.error in _UNKNOWN_OUTCOMES
        if is_unknown or not change.error:
            yield AuditEvent(
                ADMINISTRATION,
                UNKNOWN if is_unknown else SUCCESS,
                api=api.name,
                operation=change.operation,
                resource_type=change.resource_type,
                resource_name=shortened(change.resource_name),
                details=tuple(change.details.items()),
            )


def shortened(text: str) -> str:
    """A text that a client chose, cut."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}... ({len(text)} characters)"


def _some(values: Iterable[Json]) -> list[Json]:
    """The first elements of a list, and how many more there are."""
    found = list(values)
    left = [f"{len(found) - MAX_LIST} more"] if len(found) > MAX_LIST else []
    return [*(shortened(each) if isinstance(each, str) else each for each in found[:MAX_LIST]), *left]


def _settings(pairs: Iterable[tuple[str, str | None]]) -> Details:
    """Settings by name, each with the text that stands for its change."""
    found = [(shortened(name), None if value is None else shortened(value)) for name, value in pairs]
    left: Details = {"...": f"{len(found) - MAX_LIST} more"} if len(found) > MAX_LIST else {}
    return {**dict(found[:MAX_LIST]), **left}


def _errors(results: Iterable[Any] | None, key: Callable[[Any], Any]) -> Callable[[Any], int | None]:
    """The error of a resource in the answer; None without an answer."""
    if results is None:
        return lambda _: None
    codes = {key(each): each.error_code for each in results}
    # What the answer does not tell of has not been done.
    return lambda name: codes.get(name, -1)


def _results(response: Any | None, name: str) -> Any | None:
    return None if response is None else getattr(response, name)


def _error(response: Any | None) -> int | None:
    return None if response is None else response.error_code


# -- topics and partitions ----------------------------------------------------------------------------


def _create_topics(request: Any, response: Any, _: Before) -> Iterator[Change]:
    error = _errors(_results(response, "topics"), lambda each: each.name)
    made = {} if response is None else {each.name: each for each in response.topics}
    for topic in request.topics:
        details: Details = {
            "configs": _settings((each.name, _shown(TOPIC_RESOURCE, each)) for each in topic.configs)
        }
        result = made.get(topic.name)
        partitions, replicas = len(topic.assignments) or topic.num_partitions, topic.replication_factor
        if result is not None and result.num_partitions > 0:
            partitions, replicas = result.num_partitions, result.replication_factor
        details |= {"partitions": partitions, "replication_factor": replicas}
        yield Change(CREATE, TOPIC, topic.name, details, error(topic.name))


def _delete_topics(request: Any, response: Any, before: Before) -> Iterator[Change]:
    if response is None:
        for name in request.topic_names:
            yield Change(DELETE, TOPIC, name, {}, None)
        for topic in request.topics:
            name = topic.name or before.topic_names.get(topic.topic_id, "")
            yield Change(DELETE, TOPIC, name, {"topic_id": str(topic.topic_id)}, None)
        return
    for result in response.responses:
        name = result.name or before.topic_names.get(result.topic_id, "")
        yield Change(DELETE, TOPIC, name, {"topic_id": str(result.topic_id)}, result.error_code)


def _create_partitions(request: Any, response: Any, _: Before) -> Iterator[Change]:
    error = _errors(_results(response, "results"), lambda each: each.name)
    for topic in request.topics:
        yield Change(ALTER, TOPIC, topic.name, {"partitions": topic.count}, error(topic.name))


def _elect_leaders(request: Any, response: Any, _: Before) -> Iterator[Change]:
    kind = "unclean" if request.election_type else "preferred"
    if response is None:
        for wanted in request.topic_partitions or ():
            details = {"election": kind, "partitions": _some(wanted.partitions)}
            yield Change("ELECT", TOPIC, wanted.topic, details, None)
        if request.topic_partitions is None:
            yield Change("ELECT", CLUSTER, "kafka-cluster", {"election": kind}, None)
        return
    for topic in response.replica_election_results:
        elected = [each.partition_id for each in topic.partition_result if not each.error_code]
        if elected:
            yield Change("ELECT", TOPIC, topic.topic, {"election": kind, "partitions": _some(elected)})


def _reassign(request: Any, response: Any, _: Before) -> Iterator[Change]:
    codes: dict[tuple[str, int], int] = {}
    if response is not None:
        for topic in response.responses:
            for each in topic.partitions:
                codes[topic.name, each.partition_index] = response.error_code or each.error_code
    for topic in request.topics:
        moved = [
            [each.partition_index, None if each.replicas is None else _some(each.replicas)]
            for each in topic.partitions
            if response is None or codes.get((topic.name, each.partition_index), -1) == 0
        ]
        if moved:
            error = None if response is None else 0
            yield Change("REASSIGN", TOPIC, topic.name, {"replicas": _some(moved)}, error)


def _delete_records(request: Any, response: Any, _: Before) -> Iterator[Change]:
    codes = {
        (topic.name, each.partition_index): each.error_code
        for topic in _results(response, "topics") or ()
        for each in topic.partitions
    }
    for topic in request.topics:
        done = [
            [each.partition_index, each.offset]
            for each in topic.partitions
            if response is None or codes.get((topic.name, each.partition_index), -1) == 0
        ]
        if done:
            details = {"before": _some(done)}
            yield Change("DELETE_RECORDS", TOPIC, topic.name, details, None if response is None else 0)


# -- configurations -----------------------------------------------------------------------------------


def _shown(resource_type: int, config: Any) -> str | None:
    """A setting's value, unless it is a secret or may be one."""
    if config.value is None:
        return None
    if resource_type == BROKER_LOGGER_RESOURCE:
        return str(config.value)
    name = without_listener(config.name) if resource_type == BROKER_RESOURCE else config.name
    setting = TABLES.get(resource_type, {}).get(name)
    if setting is None and resource_type != BROKER_RESOURCE:
        setting = TABLES[BROKER_RESOURCE].get(name)
    return HIDDEN if setting is None or setting.sensitive else str(config.value)


def _alter_configs(request: Any, response: Any, _: Before) -> Iterator[Change]:
    error = _errors(_results(response, "responses"), lambda each: (each.resource_type, each.resource_name))
    for resource in request.resources:
        kind = resource.resource_type
        details = {"configs": _settings((each.name, _shown(kind, each)) for each in resource.configs)}
        place = kind, resource.resource_name
        yield Change(ALTER_CONFIGS, _config_kind(kind), place[1], {**details, "replaced": True}, error(place))


_SIGNS: Final = {Operation.SET: "", Operation.APPEND: "+", Operation.SUBTRACT: "-"}


def _incremental_alter_configs(request: Any, response: Any, _: Before) -> Iterator[Change]:
    error = _errors(_results(response, "responses"), lambda each: (each.resource_type, each.resource_name))
    for resource in request.resources:
        kind = resource.resource_type

        def change(each: Any, kind: int = kind) -> str | None:
            shown = _shown(kind, each)
            sign = _SIGNS.get(each.config_operation)
            return None if sign is None or shown is None else f"{sign}{shown}"

        details = {"configs": _settings((each.name, change(each)) for each in resource.configs)}
        place = kind, resource.resource_name
        yield Change(ALTER_CONFIGS, _config_kind(kind), place[1], details, error(place))


def _alter_loggers(request: Any, response: Any, before: Before) -> Iterator[Change]:
    for change in _incremental_alter_configs(request, response, before):
        if change.resource_type == _CONFIG_RESOURCES[BROKER_LOGGER_RESOURCE]:
            yield change


def _config_kind(resource_type: int) -> str:
    return _CONFIG_RESOURCES.get(resource_type, str(resource_type))


# -- users, ACLs, quotas, tokens ------------------------------------------------------------------------


def _create_acls(request: Any, response: Any, _: Before) -> Iterator[Change]:
    results = itertools.repeat(None) if response is None else response.results
    for acl, result in zip(request.creations, results, strict=False):
        details = _acl(acl, acl.resource_pattern_type)
        kind = ResourceType(acl.resource_type).name
        yield Change(
            "CREATE_ACL", kind, acl.resource_name, details, None if result is None else result.error_code
        )


def _delete_acls(request: Any, response: Any, _: Before) -> Iterator[Change]:
    if response is None:
        for each in request.filters:
            details = {
                "principal": each.principal_filter,
                "host": each.host_filter,
                "operation": AclOperation(each.operation).name,
            }
            kind = ResourceType(each.resource_type_filter).name
            yield Change("DELETE_ACL", kind, each.resource_name_filter or "*", details, None)
        return
    for result in response.filter_results:
        for acl in result.matching_acls:
            kind = ResourceType(acl.resource_type).name
            error = result.error_code or acl.error_code
            yield Change("DELETE_ACL", kind, acl.resource_name, _acl(acl, acl.pattern_type), error)


def _acl(acl: Any, pattern_type: int) -> Details:
    return {
        "pattern": PatternType(pattern_type).name,
        "principal": shortened(acl.principal),
        "host": shortened(acl.host),
        "operation": AclOperation(acl.operation).name,
        "permission": AclPermission(acl.permission_type).name,
    }


def _alter_scram_credentials(request: Any, response: Any, _: Before) -> Iterator[Change]:
    error = _errors(_results(response, "results"), lambda each: each.user)
    for each in request.deletions:
        details: Details = {"mechanism": _mechanism(each.mechanism)}
        yield Change("DELETE_CREDENTIAL", USER, each.name, details, error(each.name))
    for each in request.upsertions:
        details = {"mechanism": _mechanism(each.mechanism), "iterations": each.iterations}
        yield Change("ALTER_CREDENTIAL", USER, each.name, details, error(each.name))


def _mechanism(number: int) -> str:
    return next((each.mechanism_name for each in ScramMechanism if each.number == number), str(number))


def _alter_client_quotas(request: Any, response: Any, _: Before) -> Iterator[Change]:
    error = _errors(_results(response, "entries"), _entity)
    for entry in request.entries:
        # Records have no floating-point numbers: a number's text is the same everywhere.
        limits = _settings((each.key, None if each.remove else repr(each.value)) for each in entry.ops)
        entity = ",".join(f"{kind}={'<default>' if name is None else name}" for kind, name in _entity(entry))
        yield Change("ALTER_QUOTA", "CLIENT_QUOTA", entity, {"limits": limits}, error(_entity(entry)))


def _entity(entry: Any) -> tuple[tuple[str, str | None], ...]:
    return tuple(
        sorted(((each.entity_type, each.entity_name) for each in entry.entity), key=lambda one: one[0])
    )


def _create_token(request: Any, response: Any, _: Before) -> Iterator[Change]:
    details: Details = {
        "renewers": _some(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
    }
    if response is None:
        yield Change(CREATE, TOKEN, "", details, None)
        return
    details["owner"] = shortened(f"{response.principal_type}:{response.principal_name}")
    details["expires_ms"] = response.expiry_timestamp_ms
    yield Change(CREATE, TOKEN, response.token_id, details, response.error_code)


def _renew_token(_: Any, response: Any, before: Before) -> Iterator[Change]:
    details: Details = {} if response is None else {"expires_ms": response.expiry_timestamp_ms}
    yield Change("RENEW", TOKEN, before.token_id or "", details, _error(response))


def _expire_token(_: Any, response: Any, before: Before) -> Iterator[Change]:
    details: Details = {} if response is None else {"expires_ms": response.expiry_timestamp_ms}
    yield Change("EXPIRE", TOKEN, before.token_id or "", details, _error(response))


# -- the cluster ------------------------------------------------------------------------------------------


def _update_features(request: Any, response: Any, _: Before) -> Iterator[Change]:
    codes = {} if response is None else {each.feature: each.error_code for each in response.results}
    for each in request.feature_updates:
        error = _error(response) or codes.get(each.feature, 0) if response is not None else None
        yield Change(ALTER, "FEATURE", each.feature, {"level": each.max_version_level}, error)


def _unregister_broker(request: Any, response: Any, _: Before) -> Iterator[Change]:
    yield Change("UNREGISTER", "BROKER", str(request.broker_id), {}, _error(response))


def _unregister_controller(request: Any, response: Any, _: Before) -> Iterator[Change]:
    yield Change("UNREGISTER", "CONTROLLER", str(request.controller_id), {}, _error(response))


def _add_voter(request: Any, response: Any, _: Before) -> Iterator[Change]:
    yield Change("ADD_VOTER", "CONTROLLER", str(request.voter_id), _voter(request), _error(response))


def _remove_voter(request: Any, response: Any, _: Before) -> Iterator[Change]:
    yield Change("REMOVE_VOTER", "CONTROLLER", str(request.voter_id), _voter(request), _error(response))


def _voter(request: Any) -> Details:
    return {"directory_id": str(request.voter_directory_id)}


# -- groups and transactions --------------------------------------------------------------------------------


def _delete_groups(request: Any, response: Any, _: Before) -> Iterator[Change]:
    error = _errors(_results(response, "results"), lambda each: each.group_id)
    for group_id in request.groups_names:
        yield Change(DELETE, GROUP, group_id, {}, error(group_id))


def _delete_offsets(request: Any, response: Any, _: Before) -> Iterator[Change]:
    for topic, partitions in _partitions_done(request, response, "topics", "name"):
        details = {"topic": shortened(topic), "partitions": partitions}
        yield Change("DELETE_OFFSETS", GROUP, request.group_id, details, _error(response))


def _alter_share_offsets(request: Any, response: Any, _: Before) -> Iterator[Change]:
    for topic, partitions in _partitions_done(request, response, "responses", "topic_name"):
        details = {"topic": shortened(topic), "partitions": partitions}
        yield Change("ALTER_OFFSETS", GROUP, request.group_id, details, _error(response))


def _partitions_done(
    request: Any, response: Any, results: str, name: str
) -> Iterator[tuple[str, Sequence[Json]]]:
    for topic in request.topics if response is None else getattr(response, results):
        partitions = [each.partition_index for each in topic.partitions if not getattr(each, "error_code", 0)]
        if partitions:
            yield getattr(topic, name), _some(partitions)


def _delete_share_offsets(request: Any, response: Any, _: Before) -> Iterator[Change]:
    for topic in request.topics if response is None else response.responses:
        error = _error(response) or getattr(topic, "error_code", 0) if response is not None else None
        details = {"topic": shortened(topic.topic_name)}
        yield Change("DELETE_OFFSETS", GROUP, request.group_id, details, error)


def _write_markers(request: Any, response: Any, _: Before) -> Iterator[Change]:
    results = [] if response is None else response.markers
    codes = {
        (marker.producer_id, topic.name, each.partition_index): each.error_code
        for marker in results
        for topic in marker.topics
        for each in topic.partitions
    }
    for marker in request.markers:
        for topic in marker.topics:
            done = [
                index
                for index in topic.partition_indexes
                if response is None or codes.get((marker.producer_id, topic.name, index), -1) == 0
            ]
            if done:
                details: Details = {
                    "topic": shortened(topic.name),
                    "partitions": _some(done),
                    "producer_epoch": marker.producer_epoch,
                }
                operation = "COMMIT_TRANSACTION" if marker.transaction_result else "ABORT_TRANSACTION"
                error = None if response is None else 0
                yield Change(operation, PRODUCER_ID, str(marker.producer_id), details, error)


def _fence(request: Any, response: Any, _: Before) -> Iterator[Change]:
    if request.transactional_id is not None and request.transaction_timeout_ms == FENCING_TIMEOUT_MS:
        yield Change("FENCE", TRANSACTIONAL_ID, request.transactional_id, {}, _error(response))


BY_CONTROLLER: Final[Mapping[ApiKey, Describe]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassign,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_scram_credentials,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _renew_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expire_token,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.UNREGISTER_BROKER: _unregister_broker,
    ApiKey.UNREGISTER_CONTROLLER: _unregister_controller,
    ApiKey.ADD_RAFT_VOTER: _add_voter,
    ApiKey.REMOVE_RAFT_VOTER: _remove_voter,
}
"""The changes that the active controller makes."""
BY_BROKER: Final[Mapping[ApiKey, Describe]] = {
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _delete_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _alter_share_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _delete_share_offsets,
    ApiKey.WRITE_TXN_MARKERS: _write_markers,
    ApiKey.INIT_PRODUCER_ID: _fence,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_loggers,
}
"""The changes that a broker makes by itself; of configurations only those of its loggers."""
