"""A broker of either side with a listener of SASL beside its plaintext one; certificate, users, ACLs alike.

The topics, ACLs and offsets of a measurement are made and read over the plaintext listener by a super user;
the clients that are measured come over the other one as USER, who has to be allowed everything by an ACL.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bench.clients import ADMIN_TIMEOUT_SECONDS, TOPIC, Access
from bench.errors import BenchError
from bench.secured_client import SecuredClient
from bench.servers import HOST, Server, System, prepare, run
from ottla.core.security.acls import AclOperation, AclPermission, PatternType, ResourceType
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ottla.security.making_certificates import Authority
from support.clients.wire import WireClient
from support.servers.cluster import free_port

USER, PASSWORD = "alice", "alice-secret"
MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096
HOST_NAME = "localhost"
CERTIFICATE_DAYS = 2
ACLS_A_REQUEST = 1_000
ACL_SEED = 20
TLS, NO_TLS = "SASL_SSL", "SASL_PLAINTEXT"
_SECURITY = "org.apache.kafka.common.security"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True)
class Security:
    """How a broker is secured. authorizer: whether there is one, which `acls` need.

    protocol: of its second listener, TLS or NO_TLS.
    """

    protocol: str = TLS
    authorizer: bool = True
    acls: Sequence[AclCreation] = ()


@dataclass(frozen=True, slots=True)
class SecuredServer:
    """A broker that runs. server: known by its plaintext listener. access: USER's, at the other one."""

    server: Server
    access: Access
    ca: Path


@contextmanager
def serve(
    system: System, workspace: Path, security: Security, *, ottla_python_flags: Sequence[str] = ()
) -> Iterator[SecuredServer]:
    """A secured broker for the length of the block, on an empty directory that is made at `workspace`."""
    workspace.mkdir(parents=True, exist_ok=True)
    ca = write_certificates(workspace)
    port = free_port()
    prepared = prepare(
        system,
        workspace,
        settings=broker_settings(security, workspace),
        more_listeners=[f"{security.protocol}://{HOST}:{port}"],
        ottla_python_flags=ottla_python_flags,
    )
    properties = client_properties(security.protocol, ca)
    config = workspace / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
    with run(prepared) as server:
        _add_user(server)
        add_acls(server, security.acls)
        yield SecuredServer(server, Access(f"{HOST}:{port}", properties, config), ca)


def connecting_client(server: SecuredServer) -> SecuredClient:
    """A client of bench/secured_client.py that logs in as USER at the listener of TLS."""
    return SecuredClient.of(server.access.bootstrap, server.ca, USER, PASSWORD, HOST_NAME)


def write_certificates(directory: Path) -> Path:
    """Write the broker's key and certificate to `node.pem`; the path of the authority's own certificate."""
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.create("bench", now, CERTIFICATE_DAYS)
    ca = directory / "ca.pem"
    ca.write_bytes(authority.certificate_pem())
    node = authority.issue("broker", now, CERTIFICATE_DAYS, hosts=(HOST_NAME, HOST))
    (directory / "node.pem").write_bytes(node.pem())
    return ca


def broker_settings(security: Security, directory: Path) -> Mapping[str, str]:
    """The settings of either side, beside the listeners."""
    settings = {
        "listener.security.protocol.map": ",".join(
            ("CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", f"{security.protocol}:{security.protocol}")
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.{security.protocol.lower()}.{MECHANISM.lower()}.sasl.jaas.config": (
            f"{_SECURITY}.scram.ScramLoginModule required;"
        ),
    }
    if security.protocol == TLS:
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / "node.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "ca.pem"),
        }
    if security.authorizer:
        settings |= {"authorizer.class.name": _AUTHORIZER, "super.users": "User:ANONYMOUS"}
    return settings


def client_properties(protocol: str, ca: Path) -> Mapping[str, str]:
    """The properties with which Kafka's Java clients log in as USER."""
    properties = {
        "security.protocol": protocol,
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": (
            f'{_SECURITY}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
        ),
    }
    if protocol == TLS:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(ca)}
    return properties


def _add_user(server: Server) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, ITERATIONS)
    upsertion = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    try:
        with AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 3}) as admin:
            admin.alter_user_scram_credentials([upsertion])[USER].result(ADMIN_TIMEOUT_SECONDS)
    except (KafkaException, TimeoutError) as error:
        raise BenchError(f"could not make a user on {server.system.title}: {error}") from error


# --- ACLs -----------------------------------------------------------------------------------------------


def add_acls(server: Server, acls: Sequence[AclCreation]) -> None:
    """Create ACLs, some at a time. Raises BenchError when one is refused."""
    with WireClient.connect(server.bootstrap) as client:
        client.connection.settimeout(ADMIN_TIMEOUT_SECONDS)
        for start in range(0, len(acls), ACLS_A_REQUEST):
            page = list(acls[start : start + ACLS_A_REQUEST])
            for result in client.call(CreateAclsRequest(creations=page)).results:
                if result.error_code != ErrorCode.NONE:
                    raise BenchError(f"{server.system.title} refused an ACL: {result.error_message}")


def allow(
    operation: AclOperation,
    name: str,
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    user: str = USER,
) -> AclCreation:
    """An ACL that lets a user do an operation from any host."""
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=AclPermission.ALLOW,
    )


def acls_of_the_user(topic: str = TOPIC) -> list[AclCreation]:
    """Those by which USER writes to and reads one topic, in any group."""
    operations = (AclOperation.WRITE, AclOperation.READ)
    groups = allow(AclOperation.READ, "*", kind=ResourceType.GROUP)
    return [*(allow(operation, topic) for operation in operations), groups]


def acls_of_others(count: int) -> list[AclCreation]:
    """ACLs of other users on other topics, the same with each call: a third of them on prefixes."""
    drawn = random.Random(ACL_SEED)
    acls = []
    for number in range(count):
        pattern = PatternType.PREFIXED if number % 3 == 0 else PatternType.LITERAL
        operation = drawn.choice((AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE))
        name = f"{drawn.choice('abcdefgh')}{drawn.randrange(1000)}.orders-{number}"
        acls.append(allow(operation, name, pattern=pattern, user=f"user-{drawn.randrange(500)}"))
    return acls
