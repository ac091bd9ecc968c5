"""Any request and any answer of an administrative API make events that a record can tell, without secrets."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.audit.changes import BY_BROKER, BY_CONTROLLER, MAX_TEXT, Before, changes_of
from ottla.protocol.apis import ApiKey, advertised_versions, request_class, response_class
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.security.audit_chain import MAX_VALUE_BYTES, TimedEvent, read_record, seal
from support.protocol.messages import random_message

SECRET = "0123456789-very-secret"
SECRET_FIELDS = {"hmac", "salt", "salted_password"}
CASES = [*BY_CONTROLLER.items(), *BY_BROKER.items()]


def with_secrets(message: Any) -> None:
    """Put the secret wherever a message has one."""
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name, None)
        if name in SECRET_FIELDS:
            setattr(message, name, SECRET.encode())
        elif isinstance(value, list):
            for each in value:
                with_secrets(each)


@pytest.mark.parametrize(("api", "describe"), CASES, ids=[each.name for each, _ in CASES])
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), answered=st.booleans())
def test_any_request_and_answer(api: ApiKey, describe: Any, seed: int, answered: bool) -> None:
    dice = random.Random(seed)
    smallest, largest = advertised_versions(api)
    version = dice.randint(smallest, largest)
    request = random_message(request_class(api), version, dice)
    response = random_message(response_class(api), version, dice) if answered else None
    with_secrets(request)
    with_secrets(response)
    events = list(changes_of(describe, api, request, response, Before()))
    values, _ = seal([TimedEvent(each, 1) for each in events], 1, "run", None, None)
    for event, value in zip(events, values, strict=True):
        assert read_record(value).fields["api"] == api.name
        assert len(value) < MAX_VALUE_BYTES // 4
        assert len(event.resource_name or "") <= MAX_TEXT + 40
        assert SECRET.encode() not in value
        assert SECRET.encode().hex().encode() not in value
    if api is not ApiKey.INIT_PRODUCER_ID and not answered and not getattr(request, "validate_only", False):
        assert all(each.outcome == "unknown" for each in events)


def test_values_of_secret_settings_are_hidden_wherever_they_stand() -> None:
    """On brokers and listeners, and of settings that are not known."""
    names = ("ssl.key.password", "listener.name.x.plain.sasl.jaas.config", "no.such.setting", "retention.ms")
    for kind in (2, 4, 16, 32, 99):
        for operation in (0, 2, 3):
            configs = [
                AlterableConfig(name=name, config_operation=operation, value=SECRET) for name in names[:3]
            ]
            resource = AlterConfigsResource(resource_type=kind, resource_name="1", configs=configs)
            request = IncrementalAlterConfigsRequest(resources=[resource])
            api = ApiKey.INCREMENTAL_ALTER_CONFIGS
            (event,) = changes_of(BY_CONTROLLER[api], api, request, None, Before())
            assert SECRET not in str(event)
