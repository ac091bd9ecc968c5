"""`ottla acl`, `user` and `quota` on a cluster: what they do, and that they say the same as Kafka's tools."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from support.clients.named_states import seed_of_this_run
from support.clients.ottla_command import done, ottla, refused
from support.java.java_tools import run_java
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker

OwnCluster = OttlaBroker | ApacheKafka
ACL_COMMAND = "org.apache.kafka.tools.AclCommand"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_PATTERN = re.compile(r"resourceType=(\w+), name=(.*), patternType=(\w+)\)")
_ENTRY = re.compile(r"\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)")
Row = tuple[str, ...]


@pytest.fixture
def bootstrap(start_own: Callable[..., AbstractContextManager[OwnCluster]]) -> Iterator[str]:
    """A cluster of its own with an authorizer, whose super user needs no login."""
    with start_own(settings=SETTINGS) as cluster:
        yield cluster.bootstrap


def java(command: str, bootstrap: str, *words: str) -> str:
    ran = run_java(command, "--bootstrap-server", bootstrap, *words)
    assert ran.returncode == 0, ran
    return ran.stdout


def of_kafka(bootstrap: str) -> set[Row]:
    """All ACLs, as kafka-acls.sh lists them."""
    found: set[Row] = set()
    pattern: Row = ()
    for line in java(ACL_COMMAND, bootstrap, "--list").splitlines():
        if (resource := _PATTERN.search(line)) is not None:
            pattern = resource.groups()
        elif (entry := _ENTRY.search(line)) is not None:
            found.add((*pattern, *entry.groups()))
    return found


def of_ottla(bootstrap: str, *words: str) -> set[Row]:
    """ACLs as `ottla acl list` lists them, in the words of kafka-acls.sh."""
    return set(map(in_kafkas_words, done(bootstrap, "acl", "list", *words)))


def in_kafkas_words(row: dict[str, Any]) -> Row:
    def name(word: str) -> str:
        return word.upper().replace("-", "_")

    return (
        name(row["resource_type"]),
        row["resource_name"],
        name(row["pattern_type"]),
        row["principal"],
        row["host"],
        name(row["operation"]),
        name(row["permission"]),
    )


# -- ACLs ------------------------------------------------------------------------------------------------


def test_acls_are_created_listed_and_deleted(bootstrap: str) -> None:
    (read,) = done(bootstrap, "acl", "create", "--principal", "alice", "--topic", "t", "--operation", "read")
    assert (read["principal"], read["operation"], read["created"]) == ("User:alice", "read", True)
    words = ("--principal", "User:bob", "--group", "g", "--prefixed", "--deny", "--host", "10.0.0.1")
    done(bootstrap, "acl", "create", *words, "--operation", "all")
    assert of_ottla(bootstrap) == {
        ("TOPIC", "t", "LITERAL", "User:alice", "*", "READ", "ALLOW"),
        ("GROUP", "g", "PREFIXED", "User:bob", "10.0.0.1", "ALL", "DENY"),
    }
    assert of_ottla(bootstrap, "--group", "g7", "--pattern", "match") == of_ottla(
        bootstrap, "--permission", "deny"
    )
    assert of_ottla(bootstrap, "--topic", "other") == set()

    assert "needs a yes" in refused(bootstrap, "acl", "delete", "--principal", "alice")
    (gone,) = done(bootstrap, "acl", "delete", "--principal", "alice", "--yes")
    assert gone["deleted"] is True
    assert len(of_ottla(bootstrap)) == 1
    done(bootstrap, "acl", "delete", "--all", "--yes")
    assert of_ottla(bootstrap) == set()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--topic", "t", "--operation", "read"), "--principal"),
        (("--principal", "a", "--operation", "read"), "--topic"),
        (("--principal", "a", "--topic", "t"), "--operation"),
        (("--principal", "a", "--topic", "t", "--consumer"), "--group"),
        (("--principal", "a", "--topic", "t", "--producer", "--deny"), "say which operations"),
        (("--principal", "a", "--topic", "t", "--group", "g", "--producer"), "--group is not for"),
    ],
)
def test_incomplete_words_are_refused(words: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused("127.0.0.1:1", "acl", "create", *words, code=2)


def test_a_cluster_without_an_authorizer_says_so(
    start_own: Callable[..., AbstractContextManager[OwnCluster]],
) -> None:
    with start_own() as cluster:
        assert "SECURITY_DISABLED" in refused(cluster.bootstrap, "acl", "list")
        words = ("--principal", "a", "--topic", "t", "--operation", "read")
        assert "SECURITY_DISABLED" in refused(cluster.bootstrap, "acl", "create", *words)


@pytest.mark.java
@pytest.mark.slow
def test_acls_are_kafkas_whoever_makes_them(bootstrap: str) -> None:
    rng = random.Random(seed_of_this_run())
    clients = [
        ("--producer", "--topic", "orders"),
        ("--producer", "--topic", "orders", "--transactional-id", "ledger"),
        ("--producer", "--idempotent", "--topic", "orders"),
        ("--consumer", "--topic", "orders", "--group", "billing"),
        ("--producer", "--consumer", "--topic", "orders", "--topic", "clicks", "--group", "billing"),
    ]
    for number, words in enumerate(rng.sample(clients, 3)):
        prefixed = rng.random() < 0.5
        ours = (*words, *(["--prefixed"] if prefixed else []))
        theirs = (*words, *(["--resource-pattern-type", "prefixed"] if prefixed else []))
        done(bootstrap, "acl", "create", "--principal", f"ours-{number}", *ours)
        java(ACL_COMMAND, bootstrap, "--add", "--allow-principal", f"User:theirs-{number}", *theirs)
    plain = ("--topic", "t*", "--operation", "describe-configs", "--host", "10.0.0.1")
    done(bootstrap, "acl", "create", "--principal", "ours-9", "--deny", *plain)
    theirs = ("--topic", "t*", "--operation", "DescribeConfigs", "--deny-host", "10.0.0.1")
    java(ACL_COMMAND, bootstrap, "--add", "--deny-principal", "User:theirs-9", *theirs)
    everything = of_ottla(bootstrap)
    assert everything == of_kafka(bootstrap)

    def of(who: str) -> set[Row]:
        mine = f"User:{who}-"
        return {tuple(part.replace(mine, "") for part in row) for row in everything if mine in row[3]}

    assert of("ours") == of("theirs")
    java(ACL_COMMAND, bootstrap, "--remove", "--force", "--topic", "t*", "--deny-principal", "User:ours-9")
    java(ACL_COMMAND, bootstrap, "--remove", "--force", "--topic", "t*")
    done(bootstrap, "acl", "delete", "--principal", "ours-0", "--yes")
    assert of_ottla(bootstrap) == of_kafka(bootstrap) < everything


# -- users -----------------------------------------------------------------------------------------------


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text("first line\nsecond line\n")
    return file


def test_users_are_created_altered_and_deleted(bootstrap: str, password: Path) -> None:
    given = ("--password-file", str(password))
    (made,) = done(bootstrap, "user", "create", "alice", *given)
    assert made == {"name": "alice", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"], "created": True}
    assert "exists already" in refused(bootstrap, "user", "create", "alice", *given)
    done(bootstrap, "user", "create", "bob", "--mechanism", "SCRAM-SHA-512", "--iterations", "4096", *given)
    assert done(bootstrap, "user", "list") == [
        {"name": "alice", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"]},
        {"name": "bob", "mechanisms": ["SCRAM-SHA-512"]},
    ]
    assert done(bootstrap, "user", "describe", "bob") == [
        {"name": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 4096}
    ]
    (altered,) = done(bootstrap, "user", "alter", "bob", "--iterations", "5000", *given)
    assert altered["mechanisms"] == ["SCRAM-SHA-512"]
    assert done(bootstrap, "user", "describe", "bob")[0]["iterations"] == 5000
    strange = refused(bootstrap, "user", "alter", "bobb", *given)
    assert "user bobb does not exist" in strange
    assert strange.count("bob") > 1  # it names one that is alike
    no_such = refused(bootstrap, "user", "delete", "bob", "--mechanism", "SCRAM-SHA-256", "--yes")
    assert "no password for SCRAM-SHA-256" in no_such
    done(bootstrap, "user", "delete", "alice", "--mechanism", "SCRAM-SHA-256", "--yes")
    done(bootstrap, "user", "delete", "bob", "--yes")
    assert done(bootstrap, "user", "list") == [{"name": "alice", "mechanisms": ["SCRAM-SHA-512"]}]


def test_a_password_comes_from_a_file_or_the_terminal_alone(bootstrap: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert "is empty" in refused(bootstrap, "user", "create", "a", "--password-file", str(empty))
    assert "--password-file" in refused(bootstrap, "user", "create", "a", code=2)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_created_user_logs_in_until_it_is_deleted(
    start_own: Callable[..., AbstractContextManager[OwnCluster]],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    password: Path,
    mechanism: str,
) -> None:
    if request.getfixturevalue("cluster").name != "ottla":
        pytest.skip("the listeners of an own Apache Kafka take no more words")
    port = free_port()
    settings = {"sasl.enabled.mechanisms": mechanism}
    with_sasl = free_port()
    listen = f"127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{with_sasl}"
    with OttlaBroker.start(tmp_path / "sasl", port, settings, ("--listen", listen)) as broker:
        done(broker.bootstrap, "user", "create", "alice", "--password-file", str(password))

        def logs_in() -> bool:
            options = {
                "bootstrap.servers": f"127.0.0.1:{with_sasl}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": "alice",
                "sasl.password": "first line",
                "log_level": 0,
            }
            try:
                AdminClient(options).list_topics(timeout=3)
            except confluent_kafka.KafkaException:
                return False
            return True

        assert logs_in()
        done(broker.bootstrap, "user", "delete", "alice", "--yes")
        assert not logs_in()


@pytest.mark.java
@pytest.mark.slow
def test_users_are_kafkas_whoever_makes_them(bootstrap: str, password: Path) -> None:
    done(bootstrap, "user", "create", "ours", "--iterations", "5000", "--password-file", str(password))
    entity = ("--entity-type", "users", "--entity-name", "theirs")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        added = f"{mechanism}=[iterations=5000,password=x]"
        java(CONFIG_COMMAND, bootstrap, "--alter", *entity, "--add-config", added)
    told = java(CONFIG_COMMAND, bootstrap, "--describe", "--entity-type", "users")
    found = dict(re.findall(r"for user-principal '(\w+)' are (.*)", told))
    assert found["ours"] == found["theirs"]
    rows = done(bootstrap, "user", "describe", "ours", "theirs")
    by_name = {
        name: [(row["mechanism"], row["iterations"]) for row in rows if row["name"] == name]
        for name in ("ours", "theirs")
    }
    assert by_name["ours"] == by_name["theirs"] == [("SCRAM-SHA-256", 5000), ("SCRAM-SHA-512", 5000)]


# -- quotas ----------------------------------------------------------------------------------------------


def quotas(bootstrap: str, *words: str) -> list[tuple[Any, Any, Any, dict[str, float]]]:
    return [
        (row["user"], row["client_id"], row["ip"], row["quotas"])
        for row in done(bootstrap, "quota", "describe", *words)
    ]


def test_quotas_are_set_shown_and_removed(bootstrap: str) -> None:
    done(bootstrap, "quota", "alter", "--user", "alice", "producer_byte_rate=1000", "request_percentage=12.5")
    done(bootstrap, "quota", "alter", "--default-user", "--client-id", "app", "consumer_byte_rate=7")
    done(bootstrap, "quota", "alter", "--ip", "10.0.0.1", "connection_creation_rate=5")
    alice = ("alice", None, None, {"producer_byte_rate": 1000.0, "request_percentage": 12.5})
    both = ("<default>", "app", None, {"consumer_byte_rate": 7.0})
    address = (None, None, "10.0.0.1", {"connection_creation_rate": 5.0})
    assert sorted(quotas(bootstrap), key=str) == sorted([alice, both, address], key=str)
    assert quotas(bootstrap, "--user", "alice") == [alice]
    assert quotas(bootstrap, "--default-user") == [both]
    assert quotas(bootstrap, "--default-user", "--strict") == []
    done(bootstrap, "quota", "alter", "--user", "alice", "producer_byte_rate=1", "--validate-only")
    assert quotas(bootstrap, "--user", "alice") == [alice]
    done(bootstrap, "quota", "delete", "--user", "alice", "producer_byte_rate")
    assert quotas(bootstrap, "--user", "alice") == [("alice", None, None, {"request_percentage": 12.5})]
    assert "has no producer_byte_rate" in refused(
        bootstrap, "quota", "delete", "--user", "alice", "producer_byte_rate"
    )
    done(bootstrap, "quota", "delete", "--user", "alice")
    assert "has no quota" in refused(bootstrap, "quota", "delete", "--user", "alice")
    table = ottla(bootstrap, "quota", "describe").out.splitlines()
    assert [line.split() for line in table[1:]] == [
        ["<default>", "app", "-", "consumer_byte_rate", "7"],
        ["-", "-", "10.0.0.1", "connection_creation_rate", "5"],
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("producer_byte_rate=1",), "say whose"),
        (("--user", "a", "--default-user", "producer_byte_rate=1"), "don't go together"),
        (("--user", "a", "--ip", "1.2.3.4", "producer_byte_rate=1"), "quotas of its own"),
        (("--user", "", "producer_byte_rate=1"), "--default-user is for the default"),
        (("--user", "a", "retention.ms=1"), "is no quota"),
        (("--user", "a", "producer_byte_rate=fast"), "takes a number"),
        (("--user", "a", "producer_byte_rate=0"), "more than 0"),
    ],
)
def test_wrong_quotas_are_refused(words: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused("127.0.0.1:1", "quota", "alter", *words, code=2)


@pytest.mark.java
@pytest.mark.slow
def test_quotas_are_kafkas_whoever_sets_them(bootstrap: str) -> None:
    done(bootstrap, "quota", "alter", "--user", "ours", "--default-client-id", "producer_byte_rate=1000")
    entity = (
        "--entity-type",
        "users",
        "--entity-name",
        "theirs",
        "--entity-type",
        "clients",
        "--entity-default",
    )
    java(CONFIG_COMMAND, bootstrap, "--alter", *entity, "--add-config", "producer_byte_rate=1000")
    told = {row["user"]: (row["client_id"], row["quotas"]) for row in done(bootstrap, "quota", "describe")}
    assert told["ours"] == told["theirs"] == ("<default>", {"producer_byte_rate": 1000.0})
    listed = java(
        CONFIG_COMMAND, bootstrap, "--describe", "--entity-type", "users", "--entity-type", "clients"
    )
    found = dict(re.findall(r"for user-principal '(\w+)'(.*)", listed))
    assert found["ours"] == found["theirs"]
    assert "producer_byte_rate=1000.0" in found["ours"]
