"""The same users, ACLs and requests on ottla and on Apache Kafka, both with SASL: each refusal is told alike.

Raw requests of the table of all APIs, each with all of its permissions, with one of them missing, and with a
drawn other one in its place; then librdkafka.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka import admin as rdadmin

from ottla.broker.config import STANDARD_AUTHORIZER
from ottla.core.security.acls import AclOperation, AclPermission, PatternType, ResourceType
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls_request import DescribeAclsRequest
from ottla.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from support.clients.named_states import seed_of_this_run
from support.clients.wire import WireClient, wait_for
from support.core.authorized_requests import CASES, GROUP_ID, NAMES, REFUSALS, TOPIC_NAME, Case, errors_of
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.long]

Permission = tuple[ResourceType, AclOperation]
TIMEOUT_S: Final = 20
ALICE: Final = "User:alice"
PASSWORDS: Final = {"admin": "a-secret", "alice": "b-secret"}
REFUSED: Final = frozenset(REFUSALS.values())
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS: Final = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin;User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": " ".join(
        [PLAIN, *(f'user_{name}="{password}"' for name, password in PASSWORDS.items())]
    )
    + ";",
}


class Side:
    """One of the two servers, with a connection of each user."""

    def __init__(self, name: str, bootstrap: str, clients: Mapping[str, WireClient]) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self._clients = clients
        self.topic_id = self.admin.create_topic(TOPIC_NAME)

    @property
    def admin(self) -> WireClient:
        """The super user."""
        return self._clients["admin"]

    def allow(self, permissions: Sequence[Permission]) -> None:
        """Give alice these permissions and no other; they hold when this returns."""
        everything = DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=ALICE,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        self.admin.call(DeleteAclsRequest(filters=[everything]))
        creations = [creation(*each) for each in dict.fromkeys(permissions)]
        if creations:
            answer = self.admin.call(CreateAclsRequest(creations=creations))
            assert [each.error_code for each in answer.results] == [0] * len(creations)
        wait_for(lambda: self.acl_count() == len(creations))

    def acl_count(self) -> int:
        """How many ACLs of alice's the broker knows."""
        answer = self.admin.call(
            DescribeAclsRequest(
                resource_type_filter=1,
                resource_name_filter=None,
                pattern_type_filter=1,
                principal_filter=ALICE,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        )
        assert answer.error_code == 0
        return sum(len(each.acls) for each in answer.resources)

    def errors(self, case: Case) -> set[ErrorCode]:
        """Every error in the answer to alice."""
        return errors_of(self._clients["alice"].call(case.request(self.topic_id), case.version))


def creation(resource: ResourceType, operation: AclOperation) -> AclCreation:
    pattern = PatternType.PREFIXED if resource is ResourceType.GROUP else PatternType.LITERAL
    return AclCreation(
        resource_type=resource,
        resource_name=NAMES[resource],
        resource_pattern_type=pattern,
        principal=ALICE,
        host="*",
        operation=operation,
        permission_type=AclPermission.ALLOW,
    )


@contextmanager
def logged_in(bootstrap: str, user: str) -> Iterator[WireClient]:
    with WireClient.connect(bootstrap) as client:
        assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        token = f"\0{user}\0{PASSWORDS[user]}".encode()
        assert client.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
        yield client


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """ottla, and Apache Kafka."""
    data: Path = tmp_path_factory.mktemp("beside")
    ports = [free_port() for _ in range(5)]
    of_ottla = f"127.0.0.1:{ports[0]},SASL_PLAINTEXT://127.0.0.1:{ports[1]}"
    listeners = (
        f"PLAINTEXT://127.0.0.1:{ports[2]},SASL_PLAINTEXT://127.0.0.1:{ports[3]},"
        f"CONTROLLER://127.0.0.1:{ports[4]}"
    )
    of_kafka = {
        **SETTINGS,
        "listeners": listeners,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports[4]}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
    }
    with ExitStack() as stack:
        stack.enter_context(OttlaBroker.start(data / "ottla", ports[0], SETTINGS, ("--listen", of_ottla)))
        stack.enter_context(ApacheKafka.start(data / "kafka", ports[2], of_kafka))
        found = []
        for name, port in (("ottla", ports[1]), ("apache-kafka", ports[3])):
            bootstrap = f"127.0.0.1:{port}"
            clients = {user: stack.enter_context(logged_in(bootstrap, user)) for user in PASSWORDS}
            found.append(Side(name, bootstrap, clients))
        yield found[0], found[1]


def variants(case: Case, rng: random.Random) -> Iterator[list[Permission]]:
    """All permissions; none; all but those of one step, and these with another operation in their place."""
    all_of_them = [step[0] for step in case.steps]
    yield all_of_them
    yield []
    for step, instead in itertools.product(case.steps, (False, True)):
        others = [other[0] for other in case.steps if other is not step]
        if instead:
            drawn = rng.choice([each for each in AclOperation if each > AclOperation.ALL])
            yield [*others, (rng.choice(step)[0], drawn)]
        else:
            yield others


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refusals_are_kafkas(sides: tuple[Side, Side], case: Case) -> None:
    ottla, kafka = sides
    seed = seed_of_this_run()
    for permissions in variants(case, random.Random(f"{seed} {case.name}")):
        found: list[set[ErrorCode]] = []
        for side in (ottla, kafka):
            side.allow(permissions)
            found.append(side.errors(case))
        refused = [errors & REFUSED for errors in found]
        assert refused[0] == refused[1], (permissions, found)
        if refused[0]:
            assert found[0] == found[1], permissions


# -- librdkafka ---------------------------------------------------------------------------------------------


def access(side: Side, user: str) -> dict[str, str]:
    return {
        "bootstrap.servers": side.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
    }


def written(side: Side) -> str:
    """The error of a record's delivery; nothing for none within the time."""
    told: list[str] = []
    producer = confluent_kafka.Producer({**access(side, "alice"), "enable.idempotence": True})
    producer.produce(
        TOPIC_NAME, b"v", on_delivery=lambda error, _: told.append("" if not error else error.name())
    )
    try:
        for _ in range(TIMEOUT_S * 10):
            producer.poll(0.1)
            if told:
                break
    except confluent_kafka.KafkaException as problem:  # a fatal one of the producer itself
        told.append(problem.args[0].name())
    producer.purge()
    producer.flush(1)
    return told[0] if told else "nothing"


def read(side: Side) -> str:
    consumer = confluent_kafka.Consumer(
        {**access(side, "alice"), "group.id": GROUP_ID, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC_NAME])
    try:
        for _ in range(TIMEOUT_S):
            message = consumer.poll(1)
            if message is not None:
                return message.error().name() if message.error() else "read"
        return "nothing"
    except confluent_kafka.KafkaException as problem:
        return str(problem.args[0].name())
    finally:
        consumer.close()


def outcome(of: Callable[[], Any]) -> str:
    try:
        of()
    except confluent_kafka.KafkaException as problem:
        return str(problem.args[0].name())
    return "done"


def administered(side: Side) -> dict[str, Any]:
    """What an administrator with alice's permissions is told."""
    client = rdadmin.AdminClient(access(side, "alice"))
    topics = client.list_topics(timeout=TIMEOUT_S).topics
    (created,) = client.create_topics([rdadmin.NewTopic("theirs", 1)], validate_only=True).values()
    (deleted,) = client.delete_topics(["theirs"]).values()
    resource = rdadmin.ConfigResource(rdadmin.ConfigResource.Type.TOPIC, TOPIC_NAME)
    (described,) = client.describe_configs([resource]).values()
    groups = client.list_consumer_groups().result(TIMEOUT_S).valid
    binding = rdadmin.AclBindingFilter(
        rdadmin.ResourceType.ANY,
        None,
        rdadmin.ResourcePatternType.ANY,
        None,
        None,
        rdadmin.AclOperation.ANY,
        rdadmin.AclPermissionType.ANY,
    )
    return {
        "topics": sorted(name for name in topics if not name.startswith("__")),
        "create": outcome(lambda: created.result(TIMEOUT_S)),
        "delete": outcome(lambda: deleted.result(TIMEOUT_S)),
        "configs": outcome(lambda: described.result(TIMEOUT_S)),
        "acls": outcome(lambda: client.describe_acls(binding).result(TIMEOUT_S)),
        "group": GROUP_ID in {each.group_id for each in groups},
    }


TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
Op = AclOperation


@pytest.mark.parametrize(
    "permissions",
    [
        [],
        [(TOPIC, Op.WRITE)],
        [(TOPIC, Op.WRITE), (TOPIC, Op.READ)],
        [(TOPIC, Op.READ), (GROUP, Op.READ)],
        [(TOPIC, Op.WRITE), (TOPIC, Op.READ), (GROUP, Op.READ)],
        [(TOPIC, Op.DESCRIBE_CONFIGS), (GROUP, Op.DELETE)],
        [(CLUSTER, Op.ALL)],
        [(CLUSTER, Op.IDEMPOTENT_WRITE)],
    ],
    ids=lambda each: " ".join(f"{one.name.lower()}-{two.name.lower()}" for one, two in each) or "none",
)
def test_librdkafka_is_told_the_same(sides: tuple[Side, Side], permissions: list[Permission]) -> None:
    told = []
    for side in sides:
        side.allow(permissions)
        told.append({**administered(side), "written": written(side), "read": read(side)})
    assert told[0] == told[1]


def test_librdkafka_makes_and_removes_acls(sides: tuple[Side, Side]) -> None:
    def story(side: Side) -> list[Any]:
        client = rdadmin.AdminClient(access(side, "admin"))
        binding = rdadmin.AclBinding(
            rdadmin.ResourceType.TOPIC,
            "made-here",
            rdadmin.ResourcePatternType.PREFIXED,
            "User:bob",
            "10.0.0.1",
            rdadmin.AclOperation.READ,
            rdadmin.AclPermissionType.DENY,
        )
        (made,) = client.create_acls([binding]).values()
        made.result(TIMEOUT_S)
        wanted = rdadmin.AclBindingFilter(
            rdadmin.ResourceType.TOPIC,
            "made-here-too",
            rdadmin.ResourcePatternType.MATCH,
            None,
            None,
            rdadmin.AclOperation.ANY,
            rdadmin.AclPermissionType.ANY,
        )
        wait_for(lambda: bool(client.describe_acls(wanted).result(TIMEOUT_S)))
        found = client.describe_acls(wanted).result(TIMEOUT_S)
        (removed,) = client.delete_acls([wanted]).values()
        return [*map(repr, found), *map(repr, removed.result(TIMEOUT_S))]

    ottla, kafka = map(story, sides)
    assert ottla == kafka
