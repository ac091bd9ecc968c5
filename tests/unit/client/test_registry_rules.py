"""Schemas whose rules a program can't carry out: nothing is written with them, and no ciphertext is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.rules import RuleMode, active_rules, read_obstacle, write_obstacle
from ottla.client.registry.wire import RegistryAccess, UnusableAnswer
from ottla.rest.records.encoding import SchemaEncoders, UnencodablePayload
from ottla.schemas.formats import format_of
from ottla.schemas.model import RuleSet, SchemaType

ENCRYPT = {"name": "crypt", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD"}
PAYLOAD = {"name": "all", "kind": "TRANSFORM", "type": "ENCRYPT_PAYLOAD", "mode": "WRITEREAD"}
CEL = {"name": "check", "kind": "CONDITION", "type": "CEL", "mode": "WRITE"}


def rules(*domain: dict[str, Any], encoding: tuple[dict[str, Any], ...] = (), **fields: Any) -> RuleSet:
    return RuleSet.from_json({"domainRules": list(domain), "encodingRules": list(encoding), **fields})


@pytest.mark.parametrize(
    ("given", "writes", "reads"),
    [
        (None, True, True),
        (rules(), True, True),
        (rules(ENCRYPT), False, False),
        (rules({**ENCRYPT, "type": "encrypt"}), False, False),
        (rules(encoding=(PAYLOAD,)), False, False),
        (rules({**ENCRYPT, "mode": "WRITE"}), False, True),
        (rules({**ENCRYPT, "mode": "READ"}), True, False),
        (rules(CEL), False, True),
        (rules({**CEL, "mode": "WRITEREAD"}), False, True),
        (rules({**CEL, "mode": "READ"}), True, True),
        (rules({**ENCRYPT, "onFailure": "NONE"}), False, False),
        (rules({**ENCRYPT, "disabled": True}), True, True),
        (rules(ENCRYPT, enableAt="GATEWAY"), True, True),
        (rules(ENCRYPT, enableAt="CLIENT"), False, False),
        (rules(ENCRYPT, enableAt="ALL"), False, False),
        (RuleSet.from_json({"migrationRules": [{**CEL, "mode": "UPGRADE"}]}), True, True),
    ],
)
def test_what_can_be_done_with_rules(given: RuleSet | None, writes: bool, reads: bool) -> None:
    assert (write_obstacle(given) is None) is writes
    assert (read_obstacle(given) is None) is reads


def test_the_obstacle_names_the_rule() -> None:
    assert "crypt (ENCRYPT)" in str(write_obstacle(rules(ENCRYPT)))
    assert "all (ENCRYPT_PAYLOAD)" in str(read_obstacle(rules(encoding=(PAYLOAD,))))
    assert "check (CEL)" in str(write_obstacle(rules(ENCRYPT, CEL), {"ENCRYPT"}))
    assert [rule.name for rule in active_rules(rules(CEL, ENCRYPT, encoding=(PAYLOAD,)), RuleMode.WRITE)] == [
        "check",
        "crypt",
        "all",
    ]


@pytest.mark.parametrize(
    ("schema_type", "text"),
    [
        (SchemaType.AVRO, '"string"'),
        (SchemaType.JSON, "{}"),
        (SchemaType.PROTOBUF, 'syntax = "proto3"; message A { string a = 1; }'),
    ],
)
def test_no_value_is_written_in_the_clear(schema_type: SchemaType, text: str) -> None:
    parsed = format_of(schema_type).parse(text, {})
    with pytest.raises(UnencodablePayload, match=r"crypt \(ENCRYPT\)"):
        SchemaEncoders().of(RegisteredSchema(7, parsed, rules=rules(ENCRYPT)))


def test_every_way_to_a_schema_brings_its_rules_and_metadata() -> None:
    kept_with = {"ruleSet": {"domainRules": [ENCRYPT]}, "metadata": {"tags": {"**.a": ["PII"]}}}
    answer = {"schema": '"string"', "id": 7, "version": 3, **kept_with}
    asked: list[str] = []

    def answered(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        return httpx.Response(200, json=answer)

    async def story() -> None:
        ways: list[Callable[[RegistryClient], Awaitable[RegisteredSchema]]] = [
            lambda client: client.by_id(7),
            lambda client: client.latest("s"),
            lambda client: client.version("s", 3),
            lambda client: client.register("s", SchemaType.AVRO, '"string"'),
        ]
        for way in ways:
            client = RegistryClient(RegistryAccess("http://a"), httpx.MockTransport(answered))
            found, again = await way(client), await client.by_id(7)
            assert found.rules == again.rules == RuleSet.from_json(kept_with["ruleSet"])
            assert found.metadata is not None and again.metadata is not None
            assert found.metadata.tags == again.metadata.tags == {"**.a": ("PII",)}
            await client.close()

    asyncio.run(story())
    assert len(set(asked)) > 3


@pytest.mark.parametrize("wrong", [{"ruleSet": 7}, {"ruleSet": {"domainRules": 7}}, {"metadata": 7}])
def test_rules_that_can_t_be_read_are_not_overlooked(wrong: dict[str, Any]) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={"schema": '"string"', **wrong}))

    async def story() -> None:
        client = RegistryClient(RegistryAccess("http://a", attempts=1), transport)
        with pytest.raises(UnusableAnswer, match="rules or metadata"):
            await client.by_id(7)
        await client.close()

    asyncio.run(story())
