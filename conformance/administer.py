"""Make or remove an ACL, or a user of SCRAM, for tests whose own client can't: a command of its own.

`python -m conformance.administer BOOTSTRAP add-acl|remove-acl|add-user JSON`. An ACL is given by the words of
Kafka's own command: `topic`, `group`, `transactional_id` or `cluster`, `allow_principal` or `deny_principal`,
`operation`; a user by `name` and `password`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

TIMEOUT_S = 20
ITERATIONS = 4096
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}


def acl_of(words: Mapping[str, str]) -> tuple[object, ...]:
    """The fields of an ACL on one resource from any host, in the order of AclBinding's."""
    kind, name = next(
        ((kind, words[word]) for word, kind in KINDS.items() if word in words),
        (ResourceType.BROKER, "kafka-cluster"),  # librdkafka's name for the cluster
    )
    permission = AclPermissionType.ALLOW if "allow_principal" in words else AclPermissionType.DENY
    principal = words.get("allow_principal") or words["deny_principal"]
    operation = AclOperation[words["operation"].upper()]
    return kind, name, ResourcePatternType.LITERAL, f"User:{principal}", "*", operation, permission


def main(bootstrap: str, command: str, words: Mapping[str, str]) -> None:
    """Carry out one command. Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    match command:
        case "add-acl":
            futures = admin.create_acls([AclBinding(*acl_of(words))])
        case "remove-acl":
            futures = admin.delete_acls([AclBindingFilter(*acl_of(words))])
        case "add-user":
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                upsertion = UserScramCredentialUpsertion(
                    words["name"], ScramCredentialInfo(mechanism, ITERATIONS), words["password"].encode()
                )
                admin.alter_user_scram_credentials([upsertion])[words["name"]].result(TIMEOUT_S)
            return
        case _:
            raise SystemExit(f"no command is called {command}")
    for future in futures.values():
        future.result(TIMEOUT_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
