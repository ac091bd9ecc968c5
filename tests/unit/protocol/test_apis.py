"""The table of APIs agrees with the messages, and can be read without importing them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.protocol import apis
from ottla.protocol.apis import APIS, ApiKey, Listeners
from ottla.protocol.errors import UnsupportedApiVersion


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_a_row_agrees_with_the_tables_of_its_messages(key: ApiKey) -> None:
    row = APIS[key]
    for cls, kind in ((apis.request_class(key), "request"), (apis.response_class(key), "response")):
        assert row.name + kind.capitalize() == cls.NAME
        assert (kind, key) == (cls.KIND, cls.API_KEY)
        assert (row.min_version, row.max_version) == (cls.MIN_VERSION, cls.MAX_VERSION)
        assert row.flexible_since == cls.FLEXIBLE_SINCE
    assert row.latest_stable_version == apis.request_class(key).LATEST_STABLE_VERSION
    assert apis.snake_case(row.name).upper() == key.name


def test_every_key_has_a_row() -> None:
    assert list(APIS) == list(ApiKey)
    assert len(ApiKey) == 91


def test_produce_is_advertised_from_zero_and_all_else_as_it_is() -> None:
    assert apis.advertised_versions(ApiKey.PRODUCE) == (0, 13)
    assert not apis.supports(ApiKey.PRODUCE, 2)
    assert apis.supports(ApiKey.PRODUCE, 3)
    assert apis.advertised_versions(ApiKey.FETCH) == (4, 18)


def test_an_unstable_version_has_a_table_but_is_not_advertised() -> None:
    assert apis.advertised_versions(ApiKey.INIT_PRODUCER_ID) == (0, 5)
    assert apis.supports(ApiKey.INIT_PRODUCER_ID, 6)


def test_header_versions() -> None:
    cases = [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),  # its response's header never changes
        (ApiKey.API_VERSIONS, 99, 2, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),  # never flexible
        (ApiKey.VOTE, 0, 2, 1),
    ]
    for key, version, request, response in cases:
        assert apis.request_header_version(key, version) == request
        assert apis.response_header_version(key, version) == response


def test_listeners() -> None:
    assert APIS[ApiKey.PRODUCE].listeners == Listeners.BROKER
    assert APIS[ApiKey.VOTE].listeners == Listeners.CONTROLLER
    assert Listeners.CONTROLLER in APIS[ApiKey.FETCH].listeners


@pytest.mark.parametrize("key", [-1, 4, 7, 95, 1000])
def test_a_key_that_does_not_exist(key: int) -> None:
    assert not apis.supports(key, 0)
    for look_up in (
        apis.request_class,
        apis.response_class,
        apis.advertised_versions,
        lambda key: apis.request_header_version(key, 0),
        lambda key: apis.response_header_version(key, 0),
    ):
        with pytest.raises(UnsupportedApiVersion):
            look_up(key)


def test_the_table_imports_no_message_and_no_compiler() -> None:
    # given: start-up time counts
    program = "import sys, ottla.protocol.apis, ottla.protocol.headers; print(*sys.modules)"

    # when
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    # then
    loaded = run.stdout.split()
    assert "ottla.protocol.apis" in loaded
    unwanted = ("ottla.protocol.messages.", "ottla.protocol.records.", "ottla.protocol.codec")
    assert not [name for name in loaded if name.startswith(unwanted)]
