"""The authorizer in a node: what is left out silently, how ACLs come and go, envelopes, starts, settings."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.config import STANDARD_AUTHORIZER
from ottla.broker.controller.envelope import unwrap_response, wrap_request
from ottla.broker.network.context import RequestContext, Session
from ottla.broker.security.acl_authorization import AclAuthorization, java_host
from ottla.core.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ottla.protocol.apis import ApiKey, request_class
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader, encode_request
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.record_batch import NewRecord, encode_batch
from ottla.protocol.schema import Message
from support.clients.wire import batch, produce_request, wait_for
from support.core.authorized_requests import GROUP_ID, TOPIC_NAME, TRANSACTIONAL_ID, errors_of, filled
from support.nodes.authorized import ADMIN, ALICE, SETTINGS, AuthorizedNode, authorized_node
from support.nodes.in_process import RawClient, create_topic, running_broker, until
from support.nodes.in_process_cluster import BROKER, CONTROLLER, nodes

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
Op = AclOperation
SECRET = "secret"


def message(key: ApiKey, **fields: Any) -> Message:
    made = filled(request_class(key), fields)
    assert isinstance(made, Message)
    return made


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizedNode]:
    with authorized_node(tmp_path_factory.mktemp("authorized")) as made:
        made.runner.run(create_topic(made.broker, SECRET))
        yield made


def names(answer: Any) -> set[str | None]:
    return {topic.name for topic in answer.topics}


# -- what is left out, and what does not leak -------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 8, 12])
def test_all_topics_are_those_that_the_client_may_describe(node: AuthorizedNode, version: int) -> None:
    node.allow((TOPIC, Op.READ))
    request = MetadataRequest(topics=[] if version == 0 else None)
    assert names(node.ask(request, version)) == {TOPIC_NAME}
    assert names(node.ask(request, version, principal=ADMIN)) > {TOPIC_NAME, SECRET}
    node.allow()
    assert names(node.ask(request, version)) == set()


@pytest.mark.parametrize("name", [SECRET, "never-made", "not/valid"])
def test_a_named_topic_is_refused_whether_it_exists_or_not(node: AuthorizedNode, name: str) -> None:
    node.allow((TOPIC, Op.READ))
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    (topic,) = node.ask(request, 12).topics
    assert (topic.error_code, topic.name, topic.topic_id.int, topic.partitions) == (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name,
        0,
        [],
    )
    assert "never-made" not in node.broker.image.topics


def test_a_topic_named_by_its_id_keeps_its_name(node: AuthorizedNode) -> None:
    node.allow()
    secret = node.broker.image.topics[SECRET].topic_id
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=secret)])
    (topic,) = node.ask(request, 12).topics
    assert (topic.error_code, topic.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    unknown = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=uuid.UUID(int=99))])
    (topic,) = node.ask(unknown, 12).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("resource", [TOPIC, CLUSTER])
def test_a_topic_is_created_for_a_client_that_may_create_it(
    node: AuthorizedNode, resource: ResourceType
) -> None:
    name = f"fresh-{resource.name.lower()}"
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    node.allow()
    node.add(1, TOPIC, name, Op.DESCRIBE)
    node.add(2, CLUSTER, CLUSTER_NAME, Op.ALTER)
    (topic,) = node.ask(request, 12).topics
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert name not in node.broker.image.topics
    node.add(3, resource, CLUSTER_NAME if resource is CLUSTER else name, Op.CREATE)
    (topic,) = node.ask(request, 12).topics
    assert topic.error_code == ErrorCode.NONE
    assert name in node.broker.image.topics


def test_partitions_of_all_topics_are_described_of_those_that_the_client_may(node: AuthorizedNode) -> None:
    node.allow((TOPIC, Op.DESCRIBE))
    ask = {"topics": [], "response_partition_limit": 100, "cursor": None}
    answer = node.ask(message(ApiKey.DESCRIBE_TOPIC_PARTITIONS, **ask), 0)
    assert [topic.name for topic in answer.topics] == [TOPIC_NAME]
    assert answer.topics[0].topic_authorized_operations == 1 << Op.DESCRIBE


def test_groups_are_listed_of_which_the_client_may_know(node: AuthorizedNode) -> None:
    request = message(ApiKey.LIST_GROUPS)
    listed = lambda: {each.group_id for each in node.ask(request, 4).groups}  # noqa: E731
    node.allow()
    assert listed() == set()
    node.allow((CLUSTER, Op.DESCRIBE))
    assert GROUP_ID in listed()
    node.allow((GROUP, Op.READ))
    assert listed() == {GROUP_ID}


def test_transactions_are_listed_of_which_the_client_may_know(node: AuthorizedNode) -> None:
    begin = message(ApiKey.INIT_PRODUCER_ID, transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=1000)
    assert node.ask(begin, 4, principal=ADMIN).error_code == 0
    request = message(ApiKey.LIST_TRANSACTIONS)
    node.allow()
    assert node.ask(request, 1).transaction_states == []
    for operation in (Op.WRITE, Op.DESCRIBE):
        node.allow((ResourceType.TRANSACTIONAL_ID, operation))
        listed = node.ask(request, 1).transaction_states
        assert [each.transactional_id for each in listed] == [TRANSACTIONAL_ID]


def test_all_of_a_groups_offsets_are_those_of_topics_that_the_client_may_describe(
    node: AuthorizedNode,
) -> None:
    request = message(ApiKey.OFFSET_FETCH, groups=[{"group_id": GROUP_ID, "topics": None}])
    node.allow((GROUP, Op.DESCRIBE))
    assert [topic.name for topic in node.ask(request, 9).groups[0].topics] == []
    node.allow((GROUP, Op.DESCRIBE), (TOPIC, Op.READ))
    assert [topic.name for topic in node.ask(request, 9).groups[0].topics] == [TOPIC_NAME]


def test_operations_are_told_as_the_client_has_them(node: AuthorizedNode) -> None:
    ask = message(ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=True)
    node.allow((CLUSTER, Op.CREATE))
    assert node.ask(ask, 1).cluster_authorized_operations == 0
    node.allow((CLUSTER, Op.ALTER))
    assert node.ask(ask, 1).cluster_authorized_operations == 1 << Op.ALTER | 1 << Op.DESCRIBE
    assert node.ask(ask, 1, principal=ADMIN).cluster_authorized_operations == 8096
    topic = MetadataRequest(
        topics=[MetadataRequestTopic(name=TOPIC_NAME)], include_topic_authorized_operations=True
    )
    node.allow((TOPIC, Op.WRITE))
    (answer,) = node.ask(topic, 12).topics
    assert answer.topic_authorized_operations == 1 << Op.WRITE | 1 << Op.DESCRIBE
    group = message(ApiKey.DESCRIBE_GROUPS, groups=[GROUP_ID], include_authorized_operations=True)
    node.allow((GROUP, Op.DELETE))
    assert node.ask(group, 5).groups[0].authorized_operations == 1 << Op.DELETE | 1 << Op.DESCRIBE


@pytest.mark.parametrize(
    ("operations", "by_name", "by_id", "name_by_id"),
    [
        ((), ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None),
        (
            (Op.DESCRIBE,),
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "doomed",
        ),
        ((Op.DELETE,), ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID, None),
    ],
)
def test_a_topic_is_deleted_by_a_client_that_may(
    node: AuthorizedNode,
    operations: tuple[AclOperation, ...],
    by_name: ErrorCode,
    by_id: ErrorCode,
    name_by_id: str | None,
) -> None:
    if "doomed" not in node.broker.image.topics:
        node.runner.run(create_topic(node.broker, "doomed"))
    topic_id = node.broker.image.topics["doomed"].topic_id
    node.allow()
    for number, operation in enumerate(operations):
        node.add(number, TOPIC, "doomed", operation)
    delete = message(ApiKey.DELETE_TOPICS, topics=[{"name": "doomed"}], timeout_ms=1000)
    (told,) = node.ask(delete, 6).responses
    assert (told.error_code, told.name) == (by_name, "doomed")
    delete = message(ApiKey.DELETE_TOPICS, topics=[{"name": None, "topic_id": topic_id}], timeout_ms=1000)
    (told,) = node.ask(delete, 6).responses
    assert (told.error_code, told.name, told.topic_id) == (by_id, name_by_id, topic_id)


def test_topics_are_deleted_by_who_may_delete_on_the_cluster(node: AuthorizedNode) -> None:
    node.runner.run(create_topic(node.broker, "unloved"))
    delete = message(ApiKey.DELETE_TOPICS, topics=[{"name": "unloved"}], timeout_ms=1000)
    node.allow((CLUSTER, Op.ALTER))
    assert node.ask(delete, 6).responses[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    node.allow((CLUSTER, Op.DELETE))
    assert node.ask(delete, 6).responses[0].error_code == ErrorCode.NONE


def test_settings_of_a_created_topic_are_told_to_a_client_that_may_describe_them(
    node: AuthorizedNode,
) -> None:
    topics = [{"name": "made", "num_partitions": 2, "replication_factor": 1}]
    create = message(ApiKey.CREATE_TOPICS, validate_only=True, timeout_ms=1000, topics=topics)
    node.allow((CLUSTER, Op.CREATE))
    (told,) = node.ask(create, 7).topics
    assert (told.error_code, told.topic_config_error_code, told.num_partitions, told.configs) == (
        ErrorCode.NONE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        -1,
        [],
    )
    node.add(9, TOPIC, "made", Op.DESCRIBE_CONFIGS)
    (told,) = node.ask(create, 7).topics
    assert (told.topic_config_error_code, told.num_partitions, bool(told.configs)) == (0, 2, True)


# -- groups whose topics are hidden -----------------------------------------------------------------------


def heartbeat(group_id: str, **fields: Any) -> Message:
    values = {"member_epoch": 0, "rebalance_timeout_ms": 10_000, "topic_partitions": [], **fields}
    return message(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id=group_id, member_id=str(uuid.UUID(int=1)), **values
    )


def test_a_consumer_group_with_a_hidden_topic_is_not_described(node: AuthorizedNode) -> None:
    group_id = f"{GROUP_ID}-hidden"
    joined = node.ask(heartbeat(group_id, subscribed_topic_names=[SECRET]), 1, principal=ADMIN)
    assert joined.error_code == 0
    node.allow((GROUP, Op.DESCRIBE))
    describe = message(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=[group_id])
    (group,) = node.ask(describe, 1).groups
    assert (group.error_code, group.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    node.add(5, TOPIC, SECRET, Op.DESCRIBE)
    (group,) = node.ask(describe, 1).groups
    assert (group.error_code, len(group.members)) == (0, 1)


def test_a_share_group_with_a_hidden_topic_is_not_described(node: AuthorizedNode) -> None:
    group_id = f"{GROUP_ID}-hidden-share"
    join = message(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        group_id=group_id,
        member_id=str(uuid.UUID(int=3)),
        member_epoch=0,
        subscribed_topic_names=[SECRET],
    )
    describe = message(ApiKey.SHARE_GROUP_DESCRIBE, group_ids=[group_id])
    epoch = node.ask(join, 1, principal=ADMIN).member_epoch

    def assigned() -> bool:
        again = message(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            group_id=group_id,
            member_id=str(uuid.UUID(int=3)),
            member_epoch=epoch,
        )
        node.ask(again, 1, principal=ADMIN)
        (group,) = node.ask(describe, 1, principal=ADMIN).groups
        return bool(group.members and group.members[0].assignment.topic_partitions)

    wait_for(assigned)
    node.allow((GROUP, Op.DESCRIBE))
    (group,) = node.ask(describe, 1).groups
    assert (group.error_code, group.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    node.add(5, TOPIC, SECRET, Op.DESCRIBE)
    (group,) = node.ask(describe, 1).groups
    assert (group.error_code, len(group.members)) == (0, 1)


def test_a_streams_group_with_a_hidden_topic_is_not_described(node: AuthorizedNode) -> None:
    group_id = f"{GROUP_ID}-hidden-streams"
    topology = {"epoch": 1, "subtopologies": [{"subtopology_id": "0", "source_topics": [SECRET]}]}
    join = message(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        group_id=group_id,
        member_id=str(uuid.UUID(int=4)),
        rebalance_timeout_ms=10_000,
        topology=topology,
        process_id="p",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        client_tags=[],
    )
    assert node.ask(join, 0, principal=ADMIN).error_code == 0
    node.allow((GROUP, Op.DESCRIBE))
    describe = message(ApiKey.STREAMS_GROUP_DESCRIBE, group_ids=[group_id])
    (group,) = node.ask(describe, 0).groups
    assert (group.error_code, group.members, group.topology) == (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        [],
        None,
    )
    node.add(5, TOPIC, SECRET, Op.DESCRIBE)
    (group,) = node.ask(describe, 0).groups
    assert (group.error_code, len(group.members)) == (0, 1)


def test_offsets_of_a_share_group_are_altered_shown_and_deleted_topic_by_topic(node: AuthorizedNode) -> None:
    group_id = f"{GROUP_ID}-share-offsets"
    start = [{"partition_index": 0, "start_offset": 0}]
    both = [{"topic_name": name, "partitions": start} for name in (TOPIC_NAME, SECRET)]
    alter = message(ApiKey.ALTER_SHARE_GROUP_OFFSETS, group_id=group_id, topics=both)
    hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    node.allow((GROUP, Op.READ), (TOPIC, Op.READ))
    answer = node.ask(alter, 0)
    told = {each.topic_name: each.partitions[0].error_code for each in answer.responses}
    assert told == {TOPIC_NAME: 0, SECRET: hidden}
    assert [each.topic_id.int for each in answer.responses if each.topic_name == SECRET] == [0]
    assert node.ask(alter, 0, principal=ADMIN).error_code == 0

    everything = message(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, groups=[{"group_id": group_id, "topics": None}])
    seen = [{"group_id": group_id, "topics": [{"topic_name": SECRET, "partitions": [0]}]}]
    (group,) = node.ask(everything, 0).groups
    assert [each.topic_name for each in group.topics] == [TOPIC_NAME]
    (group,) = node.ask(message(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, groups=seen), 0).groups
    assert [each.partitions[0].error_code for each in group.topics] == [hidden]

    node.allow((GROUP, Op.DELETE), (TOPIC, Op.READ))
    names = [{"topic_name": TOPIC_NAME}, {"topic_name": SECRET}]
    delete = message(ApiKey.DELETE_SHARE_GROUP_OFFSETS, group_id=group_id, topics=names)
    told = {each.topic_name: each.error_code for each in node.ask(delete, 0).responses}
    assert told == {TOPIC_NAME: 0, SECRET: hidden}


def test_topics_of_a_transaction_are_described_to_a_client_that_may_describe_them(
    node: AuthorizedNode,
) -> None:
    begin = message(ApiKey.INIT_PRODUCER_ID, transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=1000)
    producer = node.ask(begin, 4, principal=ADMIN)
    add = message(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        v3_and_below_transactional_id=TRANSACTIONAL_ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[{"name": name, "partitions": [0]} for name in (TOPIC_NAME, SECRET)],
    )
    assert not errors_of(node.ask(add, 3, principal=ADMIN))
    describe = message(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[TRANSACTIONAL_ID])
    node.allow((ResourceType.TRANSACTIONAL_ID, Op.DESCRIBE), (TOPIC, Op.DESCRIBE))
    (state,) = node.ask(describe, 0).transaction_states
    assert [each.topic for each in state.topics] == [TOPIC_NAME]
    # one topic that it may not write to keeps the others from being added
    node.allow((ResourceType.TRANSACTIONAL_ID, Op.WRITE), (TOPIC, Op.WRITE))
    told = {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in node.ask(add, 3).results_by_topic_v3_and_below
    }
    assert told == {
        TOPIC_NAME: ErrorCode.OPERATION_NOT_ATTEMPTED,
        SECRET: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    end = message(
        ApiKey.END_TXN,
        transactional_id=TRANSACTIONAL_ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )
    assert node.ask(end, 3, principal=ADMIN).error_code == 0


def test_an_expression_matches_topics_that_the_client_may_describe(node: AuthorizedNode) -> None:
    group_id = f"{GROUP_ID}-regex"
    node.allow((GROUP, Op.READ), (TOPIC, Op.READ))
    answer = node.ask(heartbeat(group_id, subscribed_topic_regex=f"{TOPIC_NAME}|{SECRET}"), 1)
    assert answer.error_code == 0
    found: dict[uuid.UUID, list[int]] = {}
    epoch = answer.member_epoch
    while not found:
        again = message(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            group_id=group_id,
            member_id=answer.member_id,
            member_epoch=epoch,
            subscribed_topic_regex=None,
            topic_partitions=[],
        )
        told = node.ask(again, 1)
        assert told.error_code == 0
        epoch = told.member_epoch
        if told.assignment is not None:
            found = {each.topic_id: each.partitions for each in told.assignment.topic_partitions}
    assert found == {node.topic_id: [0]}


@pytest.mark.parametrize("may_create", [False, True])
def test_internal_topics_of_streams_are_made_for_a_client_that_may_create_them(
    node: AuthorizedNode, may_create: bool
) -> None:
    group_id = f"{GROUP_ID}-streams-{may_create}"
    changelog = f"{group_id}-store-changelog"
    topology = {
        "epoch": 1,
        "subtopologies": [
            {
                "subtopology_id": "0",
                "source_topics": [TOPIC_NAME],
                "state_changelog_topics": [{"name": changelog}],
            }
        ],
    }
    join = message(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        group_id=group_id,
        member_id=str(uuid.UUID(int=2)),
        rebalance_timeout_ms=10_000,
        topology=topology,
        process_id="p",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        client_tags=[],
    )
    node.allow((GROUP, Op.READ), (TOPIC, Op.READ))
    node.add(7, TOPIC, changelog, Op.CREATE if may_create else Op.DESCRIBE)
    node.add(8, TOPIC, changelog, Op.DESCRIBE)
    answer = node.ask(join, 0)
    assert answer.error_code == 0
    detail = "".join(each.status_detail for each in answer.status or ())
    assert (f"Unauthorized to CREATE on topics {changelog}." in detail) is not may_create

    if may_create:
        node.runner.run(until(lambda: changelog in node.broker.image.topics))
    else:
        node.runner.run(asyncio.sleep(0))
        assert changelog not in node.broker.image.topics


# -- envelopes --------------------------------------------------------------------------------------------


def test_an_envelope_is_taken_from_a_node_and_decided_for_the_client_inside(node: AuthorizedNode) -> None:
    topics = [{"name": "inside", "num_partitions": 1, "replication_factor": 1}]
    create = message(ApiKey.CREATE_TOPICS, validate_only=True, timeout_ms=1000, topics=topics)
    header = RequestHeader(ApiKey.CREATE_TOPICS, 7, 3, "client")

    def inside(principal: str, *, sender: str) -> Any:
        envelope = wrap_request(header, create, principal, "10.0.0.1")
        answer: Any = node.ask(envelope, 0, principal=sender, at_controller=True)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        made: Any = unwrap_response(header, answer)
        return ErrorCode(made.topics[0].error_code)

    node.allow()
    assert inside(ADMIN, sender="User:alice") is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert inside("User:alice", sender=ADMIN) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert inside(ADMIN, sender=ADMIN) is ErrorCode.NONE
    node.allow((CLUSTER, Op.CLUSTER_ACTION))
    assert inside(ADMIN, sender="User:alice") is ErrorCode.NONE
    assert inside("User:alice", sender="User:alice") is ErrorCode.TOPIC_AUTHORIZATION_FAILED


# -- ACLs that come and go --------------------------------------------------------------------------------


def creation(operation: AclOperation, **fields: Any) -> dict[str, Any]:
    return {
        "resource_type": TOPIC,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:ANONYMOUS",
        "host": "*",
        "operation": operation,
        "permission_type": AclPermission.ALLOW,
        **fields,
    }


ANY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def test_acls_are_created_described_and_deleted(node: AuthorizedNode) -> None:
    def described(**changes: Any) -> list[tuple[int, str, int, set[tuple[str, int]]]]:
        answer = node.ask(message(ApiKey.DESCRIBE_ACLS, **{**ANY, **changes}), 3, principal=ADMIN)
        return sorted(
            (
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                {(acl.principal, acl.operation) for acl in each.acls},
            )
            for each in answer.resources
        )

    node.allow()
    create = message(
        ApiKey.CREATE_ACLS,
        creations=[
            creation(Op.READ),
            creation(Op.WRITE),
            creation(Op.READ),
            creation(Op.READ, resource_pattern_type=4, principal="User:bob"),
            creation(Op.READ, resource_type=CLUSTER, resource_name="other"),
            creation(Op.READ, principal="nobody"),
        ],
    )
    errors = [each.error_code for each in node.ask(create, 3, principal=ADMIN).results]
    assert errors == [0, 0, 0, 0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    anonymous = (TOPIC, "t", 3, {("User:ANONYMOUS", Op.READ), ("User:ANONYMOUS", Op.WRITE)})
    assert described() == [anonymous, (TOPIC, "t", 4, {("User:bob", Op.READ)})]
    assert described(principal_filter="User:bob") == [(TOPIC, "t", 4, {("User:bob", Op.READ)})]
    delete = message(ApiKey.DELETE_ACLS, filters=[{**ANY, "principal_filter": "User:ANONYMOUS"}])
    (result,) = node.ask(delete, 3, principal=ADMIN).filter_results
    assert len(result.matching_acls) == 2
    assert described() == [(TOPIC, "t", 4, {("User:bob", Op.READ)})]
    node.ask(message(ApiKey.DELETE_ACLS, filters=[ANY]), 3, principal=ADMIN)
    assert described() == []


def test_a_removed_acl_counts_on_open_connections_and_for_fetches_that_wait(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {**SETTINGS, "super.users": "User:admin"}
        async with running_broker(tmp_path, settings) as broker:
            await create_topic(broker, "t", configs=None)
            await change_acls(broker, ApiKey.CREATE_ACLS, creations=[creation(Op.READ), creation(Op.WRITE)])
            client, other = await connected(broker), await connected(broker)
            assert await produced(client) == 0
            fetch = message(
                ApiKey.FETCH,
                max_wait_ms=10_000,
                min_bytes=100_000,
                topics=[
                    {
                        "topic": "t",
                        "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}],
                    }
                ],
            )
            waiting = asyncio.ensure_future(other.call(ApiKey.FETCH, 12, fetch))
            await until(lambda: broker.partitions.partition("t", 0)._waiters)
            await change_acls(broker, ApiKey.DELETE_ACLS, filters=[{**ANY, "operation": Op.READ}])
            assert await produced(client) == 0  # wakes the fetch
            answer: Any = await waiting
            (partition,) = answer.responses[0].partitions
            assert (partition.error_code, bytes(partition.records or b"")) == (
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                b"",
            )
            await change_acls(broker, ApiKey.DELETE_ACLS, filters=[ANY])
            assert await produced(client) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            client.close()
            other.close()

    asyncio.run(asyncio.wait_for(story(), 60))


async def connected(broker: Broker) -> RawClient:
    return RawClient(*await asyncio.open_connection("127.0.0.1", broker.port))


async def produced(client: RawClient) -> int:
    answer: Any = await client.call(ApiKey.PRODUCE, 9, produce_request("t", 0, batch()))
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


async def change_acls(broker: Broker, key: ApiKey, **fields: Any) -> None:
    answer: Any = await broker.controller_channel.ask(message(key, **fields))
    for each in getattr(answer, "results", None) or answer.filter_results:
        assert each.error_code == 0, each


# -- starts and settings ----------------------------------------------------------------------------------


def test_acls_hold_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            await create_topic(broker, "t")
            await change_acls(broker, ApiKey.CREATE_ACLS, creations=[creation(Op.WRITE)])
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await connected(broker)
            assert await produced(client) == 0
            await change_acls(broker, ApiKey.DELETE_ACLS, filters=[ANY])
            assert await produced(client) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            client.close()

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("allowed", ["true", "false"])
def test_everyone_is_allowed_where_there_is_no_acl_if_so_set(tmp_path: Path, allowed: str) -> None:
    async def story() -> None:
        settings = {**SETTINGS, "allow.everyone.if.no.acl.found": allowed}
        async with running_broker(tmp_path, settings) as broker:
            await create_topic(broker, "t")
            client = await connected(broker)
            assert (await produced(client) == 0) is (allowed == "true")
            await change_acls(broker, ApiKey.CREATE_ACLS, creations=[creation(Op.READ, principal="User:x")])
            assert await produced(client) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            client.close()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_without_an_authorizer_acls_are_answered_as_disabled(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_broker(tmp_path) as broker:
            client = await connected(broker)
            described: Any = await client.call(ApiKey.DESCRIBE_ACLS, 3, message(ApiKey.DESCRIBE_ACLS, **ANY))
            assert described.error_code == ErrorCode.SECURITY_DISABLED
            create = message(ApiKey.CREATE_ACLS, creations=[creation(Op.READ), creation(Op.WRITE)])
            created: Any = await client.call(ApiKey.CREATE_ACLS, 3, create)
            assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
            delete = message(ApiKey.DELETE_ACLS, filters=[ANY])
            deleted: Any = await client.call(ApiKey.DELETE_ACLS, 3, delete)
            assert [each.error_code for each in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]
            client.close()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_refused_produce_without_an_answer_ends_the_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            await create_topic(broker, "t")
            client = await connected(broker)
            frame = encode_request(ApiKey.PRODUCE, 9, 1, "test", produce_request("t", 0, batch(), acks=0))
            await client.send(struct.pack(">i", len(frame)) + frame)
            assert await client.closed_by_broker()
            assert broker.partitions.partition("t", 0).log.log_end_offset == 0

    asyncio.run(asyncio.wait_for(story(), 60))


def test_until_the_metadata_is_read_only_super_users_may_do_something(node: AuthorizedNode) -> None:
    image = node.broker.image
    starting = AclAuthorization(
        frozenset({ADMIN}), allow_if_no_acl=True, image=image, flood_log=node.broker.server.flood_log
    )

    def allowed(principal: str) -> bool:
        context = RequestContext(0, 9, 1, None, Session("127.0.0.1", "PLAINTEXT", principal))
        return starting.allows_unnamed(context, Op.WRITE, TOPIC, "t")

    assert (allowed(ADMIN), allowed("User:alice")) == (True, False)
    starting.begin()
    assert (allowed(ADMIN), allowed("User:alice")) == (True, True)


@pytest.mark.parametrize(
    ("address", "printed"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_hosts_are_compared_as_java_prints_them(address: str, printed: str) -> None:
    assert java_host(address) == printed


def test_the_name_of_the_served_authorizer() -> None:
    assert STANDARD_AUTHORIZER == "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_a_change_is_decided_for_the_client_by_the_controller_elsewhere(tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",  # the nodes among themselves
    }
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
    create = message(ApiKey.CREATE_TOPICS, timeout_ms=5_000, topics=topics)
    alice = Session("10.0.0.1", "PLAINTEXT", "User:alice")
    context = RequestContext(ApiKey.CREATE_TOPICS, 7, 1, "test", alice)

    async def created(broker: Broker) -> int:
        answer: Any = await broker.controller_channel.forward(context, create)
        code: int = answer.topics[0].error_code
        return code

    async def story() -> None:
        async with nodes(tmp_path, {1: CONTROLLER, 2: BROKER}, settings) as cluster:
            await cluster.start(1, 2)
            broker = cluster.running[2]
            assert await created(broker) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            allow = creation(Op.CREATE, principal="User:alice", host="10.0.0.1")
            await change_acls(broker, ApiKey.CREATE_ACLS, creations=[allow])
            assert await created(broker) == ErrorCode.NONE
            may = broker.authorization.allows_unnamed
            await cluster.until(lambda: may(context, Op.CREATE, TOPIC, "t"))

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_change_of_acls_at_one_node_counts_on_open_connections_to_others(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    describe = message(ApiKey.METADATA, topics=[{"name": "t"}])

    async def code(client: RawClient) -> int:
        answer: Any = await client.call(ApiKey.METADATA, 12, describe)
        found: int = answer.topics[0].error_code
        return found

    async def story() -> None:
        async with nodes(tmp_path, {1: CONTROLLER, 2: BROKER, 3: BROKER}, settings) as cluster:
            await cluster.start(1, 2, 3)
            asked = cluster.running[2]
            await create_topic(asked, "t", configs=None)
            clients = [await connected(cluster.running[each]) for each in (2, 3)]

            async def until_all_have(wanted: ErrorCode) -> None:
                for client in clients:
                    while await code(client) != wanted:  # noqa: ASYNC110
                        await asyncio.sleep(0.001)

            await until_all_have(ErrorCode.NONE)  # the topic has no ACL
            await change_acls(asked, ApiKey.CREATE_ACLS, creations=[creation(Op.READ, principal="User:bob")])
            await until_all_have(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            await change_acls(asked, ApiKey.CREATE_ACLS, creations=[creation(Op.DESCRIBE)])
            await until_all_have(ErrorCode.NONE)
            removed = [{**ANY, "principal_filter": "User:ANONYMOUS"}]
            await change_acls(asked, ApiKey.DELETE_ACLS, filters=removed)
            await until_all_have(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for client in clients:
                client.close()

    asyncio.run(asyncio.wait_for(story(), 60))


# -- checks that only a whole conversation shows ----------------------------------------------------------


def test_records_are_acknowledged_by_a_client_that_may_read_their_topic(node: AuthorizedNode) -> None:
    group, member = f"{GROUP_ID}-acknowledging", str(uuid.uuid4())
    topic_id = node.topic_id
    partition = {"partition_index": 0}

    def asked(key: ApiKey, epoch: int, partitions: list[dict[str, Any]], **fields: Any) -> Any:
        topics = [{"topic_id": topic_id, "partitions": partitions}]
        given = {"group_id": group, "member_id": member, "share_session_epoch": epoch, "topics": topics}
        return node.ask(message(key, **given, **fields), 1)

    def fetched(epoch: int, *partitions: dict[str, Any]) -> Any:
        sizes = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1_000, "max_records": 10, "batch_size": 10}
        answer = asked(ApiKey.SHARE_FETCH, epoch, list(partitions), **sizes)
        assert answer.error_code == 0
        return answer.responses[0].partitions[0] if answer.responses else None

    may_read = ((GROUP, Op.READ), (TOPIC, Op.READ), (TOPIC, Op.WRITE))
    node.allow(*may_read)
    join = message(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        group_id=group,
        member_id=member,
        member_epoch=0,
        subscribed_topic_names=[TOPIC_NAME],
    )
    wait_for(lambda: node.ask(join, 1).error_code == 0)
    epochs = iter(range(1, 1_000))
    assert fetched(0, partition).error_code == 0
    acquired: list[Any] = []

    def acquire() -> bool:
        node.ask(produce_request(TOPIC_NAME, 0, batch()), 9)
        found = fetched(next(epochs))
        acquired.extend(found.acquired_records if found is not None else ())
        return bool(acquired)

    wait_for(acquire)
    records = {"first_offset": acquired[0].first_offset, "last_offset": acquired[0].last_offset}
    accepted = {**partition, "acknowledgement_batches": [{**records, "acknowledge_types": [1]}]}

    node.allow(*may_read[:1])
    refused = asked(ApiKey.SHARE_ACKNOWLEDGE, next(epochs), [accepted]).responses[0].partitions[0]
    assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert fetched(next(epochs), accepted).acknowledge_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    node.allow(*may_read)
    taken = asked(ApiKey.SHARE_ACKNOWLEDGE, next(epochs), [accepted]).responses[0].partitions[0]
    assert taken.error_code == 0  # they were still to be acknowledged


def test_a_topic_that_the_client_may_not_write_to_does_not_get_into_its_transaction(
    node: AuthorizedNode,
) -> None:
    """Producing adds a partition to a transaction of the second version, whose end is then written there."""
    name = "its-own"
    node.allow((TOPIC, Op.DESCRIBE))
    node.acls._authorizer.add(
        uuid.UUID(int=99),
        Acl(
            ResourceType.TRANSACTIONAL_ID,
            name,
            PatternType.LITERAL,
            ALICE,
            "*",
            Op.WRITE,
            AclPermission.ALLOW,
        ),
    )
    begin = message(ApiKey.INIT_PRODUCER_ID, transactional_id=name, transaction_timeout_ms=60_000)
    producer = node.ask(begin, 5)
    assert producer.error_code == 0
    records = encode_batch(
        [NewRecord(None, b"v", 1_700_000_000_000)],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    produce = message(
        ApiKey.PRODUCE,
        transactional_id=name,
        acks=-1,
        timeout_ms=1_000,
        topic_data=[{"name": TOPIC_NAME, "partition_data": [{"index": 0, "records": records}]}],
    )
    assert errors_of(node.ask(produce, 12)) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    describe = message(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[name])
    (state,) = node.ask(describe, 0, principal=ADMIN).transaction_states
    assert (state.transaction_state, state.topics) == ("Empty", [])
