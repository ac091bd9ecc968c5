"""confluent-kafka's encryption of fields: a party with its own executors, and its own secret or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka.schema_registry import (
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
)
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.rules.encryption.encrypt_executor import (
    Clock,
    EncryptionExecutor,
    FieldEncryptionExecutor,
)
from confluent_kafka.schema_registry.rules.encryption.kms_driver_registry import reset_kms_drivers
from confluent_kafka.schema_registry.rules.encryption.localkms.local_driver import LocalKmsDriver
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tink import _kms_clients

LATEST: Mapping[str, Any] = {"auto.register.schemas": False, "use.latest.version": True}


class SetClock(Clock):
    """A clock that is `ahead_ms` ahead."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now(self) -> int:
        return super().now() + self.ahead_ms


@dataclass(slots=True)
class Party:
    """A client with executors of its own, which keep keys; `secret`: of local-kms."""

    secret: str | None = None
    clock: SetClock = field(default_factory=SetClock)
    rules: RuleRegistry = field(default_factory=RuleRegistry)

    def __post_init__(self) -> None:
        self.rules.register_executor(FieldEncryptionExecutor(self.clock))
        self.rules.register_executor(EncryptionExecutor(self.clock))

    @property
    def arguments(self) -> dict[str, Any]:
        """The last arguments of a serializer or deserializer, which becomes this party's.

        Tink keeps the clients of key services for the whole process: those of the party before are forgotten.
        """
        _kms_clients.reset_kms_clients()
        reset_kms_drivers()
        LocalKmsDriver.register()
        return {
            "rule_conf": {} if self.secret is None else {"secret": self.secret},
            "rule_registry": self.rules,
        }


def encryption(kek: str, *, of_payload: bool = False, **params: str) -> RuleSet:
    """A rule that encrypts fields tagged PII, or whole payloads. `params` have underscores for dots."""
    named = {"encrypt.kek.name": kek, "encrypt.kms.type": "local-kms", "encrypt.kms.key.id": "any"}
    named |= {f"encrypt.{name.replace('_', '.')}": value for name, value in params.items()}
    rule = Rule(
        "encrypt",
        "",
        RuleKind.TRANSFORM,
        RuleMode.WRITEREAD,
        "ENCRYPT_PAYLOAD" if of_payload else "ENCRYPT",
        [] if of_payload else ["PII"],
        RuleParams(named),
        None,
        None,
        "ERROR,ERROR",
        False,
    )
    return RuleSet([], [], [rule]) if of_payload else RuleSet([], [rule])


def tagged_message(package: str) -> Any:
    """A class of Protobuf messages with the texts `name`, and `ssn` that is tagged PII in its options.

    The tags of metadata, the other place for them, confluent-kafka can't use: it hashes lists (2.16.0).
    """
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3", dependency=["confluent/meta.proto"]
    )
    message = file.message_type.add(name="Person")
    for number, name in enumerate(("name", "ssn"), start=1):
        added = message.field.add(name=name, number=number, type=9, label=1)  # an optional text
        if name == "ssn":
            added.options.Extensions[meta_pb2.field_meta].tags.append("PII")
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Person"))
