"""Tools of a secured cluster: ACLs, users with passwords, quotas, delegation tokens."""

from __future__ import annotations

import re

from conformance.access import PASSWORD, USER, Access, Listener
from conformance.java.stories import Story, StoryError

ACLS = "AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
TOKENS = "DelegationTokenCommand"
TOPICS = "TopicCommand"


def acls(run: Story) -> None:
    """AclCommand: added, listed by principal and by resource, removed"""
    topic, prefix, user = run.named("guarded"), run.named("prefix"), run.named("user")
    run(
        "adds several operations",
        ACLS,
        *("--add", "--allow-principal", f"User:{user}", "--topic", topic),
        *("--operation", "Read", "--operation", "Describe"),
        says=f"`ResourcePattern(resourceType=TOPIC, name={topic}, patternType=LITERAL)`",
    )
    run(
        "adds a denial on a prefix for one host",
        ACLS,
        *("--add", "--deny-principal", f"User:{user}", "--deny-host", "10.0.0.1", "--topic", prefix),
        *("--resource-pattern-type", "prefixed", "--operation", "Write"),
        says="permissionType=DENY",
    )
    run(
        "adds what a producer needs",
        ACLS,
        *("--add", "--allow-principal", f"User:{user}", "--producer", "--topic", topic),
        *("--transactional-id", user),
        says=("operation=WRITE", "operation=CREATE", "resourceType=TRANSACTIONAL_ID"),
    )
    run(
        "adds what a consumer needs",
        ACLS,
        *("--add", "--allow-principal", f"User:{user}", "--consumer", "--topic", topic, "--group", user),
        says=(f"resourceType=GROUP, name={user}", "operation=READ"),
    )
    run(
        "lists those of a principal",
        ACLS,
        *("--list", "--principal", f"User:{user}"),
        says=(f"name={topic}", f"name={prefix}", f"resourceType=GROUP, name={user}", "host=10.0.0.1"),
        soon=True,
    )
    run(
        "lists those that match a name",
        ACLS,
        *("--list", "--topic", f"{prefix}-and-more", "--resource-pattern-type", "match"),
        says=f"name={prefix}, patternType=PREFIXED",
        never=f"name={topic},",
    )
    run("refuses an unknown operation", ACLS, "--add", "--topic", topic, "--operation", "Fly", code=1)
    run(
        "removes one",
        ACLS,
        *("--remove", "--force", "--deny-principal", f"User:{user}", "--deny-host", "10.0.0.1"),
        *("--topic", prefix, "--resource-pattern-type", "prefixed", "--operation", "Write"),
    )
    run("has removed it", ACLS, "--list", "--principal", f"User:{user}", never=f"name={prefix}", soon=True)
    for kind, name in (("--topic", topic), ("--group", user), ("--transactional-id", user)):
        run(f"removes all of a resource: {kind}", ACLS, "--remove", "--force", kind, name)
    run("has removed all", ACLS, "--list", "--principal", f"User:{user}", never="(principal=", soon=True)


def users(run: Story) -> None:
    """ConfigCommand on users: credentials of SCRAM, and quotas of users, clients and addresses"""
    user, client = run.named("user"), run.named("client")
    for credential in ("SCRAM-SHA-256=[iterations=8192,password=secret]", "SCRAM-SHA-512=[password=secret]"):
        run(
            f"gives a user {credential[:13]}",
            CONFIGS,
            *("--alter", "--entity-type", "users", "--entity-name", user, "--add-config", credential),
            says=f"Completed updating config for user {user}.",
        )
    run(
        "describes it, without its secrets",
        CONFIGS,
        *("--describe", "--entity-type", "users", "--entity-name", user),
        says=("SCRAM-SHA-256=iterations=8192", "SCRAM-SHA-512=iterations=4096"),
        never=("secret", "stored_key", "salt"),
        soon=True,
    )
    run(
        "refuses too few iterations",
        CONFIGS,
        *("--alter", "--entity-type", "users", "--entity-name", user),
        *("--add-config", "SCRAM-SHA-256=[iterations=10,password=secret]"),
        code=1,
    )
    run(
        "removes a credential",
        CONFIGS,
        *("--alter", "--entity-type", "users", "--entity-name", user, "--delete-config", "SCRAM-SHA-256"),
        says="Completed updating config",
    )
    run(
        "has removed it",
        CONFIGS,
        *("--describe", "--entity-type", "users", "--entity-name", user),
        says="SCRAM-SHA-512",
        never="SCRAM-SHA-256",
        soon=True,
    )
    both = ("--entity-type", "users", "--entity-name", user, "--entity-type", "clients")
    for title, entity in (
        ("a user", both[:4]),
        ("a user's client", (*both, "--entity-name", client)),
        ("a user's other clients", (*both, "--entity-default")),
        ("a client", ("--entity-type", "clients", "--entity-name", client)),
    ):
        run(
            f"sets a quota of {title}",
            CONFIGS,
            *("--alter", *entity, "--add-config", "producer_byte_rate=1024,request_percentage=50"),
            says="Completed updating config",
        )
        run(
            f"describes the quota of {title}",
            CONFIGS,
            *("--describe", *entity),
            says=("producer_byte_rate=1024.0", "request_percentage=50.0"),
            soon=True,
        )
        run(
            f"removes the quota of {title}",
            CONFIGS,
            *("--alter", *entity, "--delete-config", "producer_byte_rate,request_percentage"),
            says="Completed updating config",
        )
        run(
            f"has removed the quota of {title}",
            CONFIGS,
            *("--describe", *entity),
            never="producer_byte_rate",
            soon=True,
        )
    run(
        "sets a rate of connections of an address",
        CONFIGS,
        *("--alter", "--entity-type", "ips", "--entity-name", "10.9.8.7"),
        *("--add-config", "connection_creation_rate=5"),
        says="Completed updating config",
    )
    run(
        "describes it",
        CONFIGS,
        *("--describe", "--entity-type", "ips", "--entity-name", "10.9.8.7"),
        says="connection_creation_rate=5.0",
        soon=True,
    )


def tokens(run: Story) -> None:
    """DelegationTokenCommand by a user that has logged in, and a login by the token"""
    access = run.target.access
    if access is None:
        raise StoryError("the broker has no listener with SASL")
    way_in = ("--bootstrap-server", access.addresses[Listener.SASL_SSL])
    config = ("--command-config", run.file("walker.properties", login(access, USER, PASSWORD)))
    made = run(
        "makes a token",
        TOKENS,
        *(*way_in, *config, "--create", "--max-life-time-period", "-1"),
        *("--renewer-principal", "User:guest"),
        bootstrap=False,
        matches=rf"User:{USER}",
    )
    row = re.search(r"^(?P<id>[\w-]{20,})\s+(?P<hmac>\S{40,}=*)\s+User:", made.out, re.MULTILINE)
    if row is None:
        raise StoryError("no token was told")
    run(
        "describes it",
        TOKENS,
        *(*way_in, *config, "--describe", "--owner-principal", f"User:{USER}"),
        bootstrap=False,
        says=(row["id"], "User:guest"),
        soon=True,
    )
    by_token = login(access, row["id"], row["hmac"], ' tokenauth="true"')
    run(
        "logs in by it",
        TOPICS,
        *(*way_in, "--command-config", run.file("token.properties", by_token), "--list"),
        bootstrap=False,
        soon=True,
    )
    run(
        "renews it",
        TOKENS,
        *(*way_in, *config, "--renew", "--hmac", row["hmac"], "--renew-time-period", "60000"),
        bootstrap=False,
        says="Completed renew operation",
    )
    run(
        "ends it",
        TOKENS,
        *(*way_in, *config, "--expire", "--hmac", row["hmac"], "--expiry-time-period", "-1"),
        bootstrap=False,
        says="Completed expire operation",
    )
    run(
        "has ended it",
        TOKENS,
        *(*way_in, *config, "--describe", "--owner-principal", f"User:{USER}"),
        bootstrap=False,
        never=row["id"],
        soon=True,
    )


def login(access: Access, user: str, password: str, option: str = "") -> str:
    """A file of properties by which Kafka's tools log in."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return (
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password}"{option};\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={access.ca}\n"
    )


STORIES = (acls, users, tokens)
