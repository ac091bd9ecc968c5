"""The values of a program: defaults, given values, those for clients; refusals that say where to look."""

from __future__ import annotations

import logging

import pytest

from ottla.config.errors import ConfigError
from ottla.config.setting import (
    HIDDEN,
    HIGH,
    InvalidValue,
    Kind,
    Password,
    Setting,
    Table,
    by_name,
    integer,
    password,
    string,
)
from ottla.config.settings import Settings
from ottla.config.sources import Layer, Origin, from_mapping, from_words
from ottla.config.validators import Rule, at_least

PORT = integer("port", 80, "The port.", at_least(0), importance=HIGH)
NAME = string.optional("name", "A name.")
SECRET = password.optional(
    "secret", "A password.", Rule("long", lambda value: "too short" if len(value.value) < 8 else None)
)
TABLE = Table(
    "a test",
    by_name([PORT, NAME, SECRET]),
    prefixes=("client.",),
    base_name=lambda name: name.removeprefix("alias."),
)


def settings(*words: str) -> Settings:
    return Settings(TABLE, from_words(words))


def test_what_is_given_wins_over_the_default() -> None:
    found = settings("port= 8080 ")

    assert (found[PORT], found[NAME]) == (8080, None)
    assert (found.is_given("port"), found.is_given("name")) == (True, False)
    assert settings()[PORT] == 80


@pytest.mark.parametrize(
    ("layer", "place", "message"),
    [
        (Layer.COMMAND, "--set", "--set port=-1: Value must be at least 0"),
        (Layer.FILE, "a.properties:3", "a.properties:3: port=-1: Value must be at least 0"),
        (Layer.ENVIRONMENT, "A_PORT", "A_PORT: port=-1: Value must be at least 0"),
        (Layer.DEFAULT, "", "port=-1: Value must be at least 0"),
    ],
)
def test_a_refusal_names_place_value_and_problem(layer: Layer, place: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings(TABLE, from_mapping({"port": "-1"}, layer, place))
    assert str(refused.value) == message


def test_a_long_value_is_cut_in_a_message() -> None:
    with pytest.raises(ConfigError) as refused:
        settings("port=" + "x" * 10_000)
    assert len(str(refused.value)) < 300


def test_a_password_is_in_no_message_and_in_no_print() -> None:
    found = settings("secret=hunter2 is long")

    assert found[SECRET] == Password("hunter2 is long")
    assert f"{found[SECRET]} {found[SECRET]!r} {SECRET.format(found[SECRET])}" == " ".join([HIDDEN] * 3)
    with pytest.raises(ConfigError) as refused:
        settings("secret=hunter2")
    assert str(refused.value) == f"--set secret={HIDDEN}: too short"
    with pytest.raises(InvalidValue) as invalid:
        SECRET.parse("hunter2")
    assert "hunter2" not in str(invalid.value)


def test_a_password_that_can_t_be_read_is_not_shown_either() -> None:
    def refuse(text: str) -> Password:
        raise ValueError("not a password")

    unreadable = Setting("secret", Kind(password.type, refuse), None, "A password.")
    with pytest.raises(InvalidValue) as invalid:
        unreadable.parse("hunter2")
    assert "hunter2" not in str(invalid.value)


def test_others_go_to_clients_by_their_prefix() -> None:
    table = Table("a test", by_name([integer("client.port", 1, "A setting of ours.")]), prefixes=("client.",))
    given = from_words(["client.port=2", "client.id=x", "clientele=y"])

    assert Settings(table, given).with_prefix("client.") == {"id": "x"}


def test_unknown_names_are_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    settings("port=1", "alias.port=2", "client.id=x", "prot=1", "a.b=secret").warn_of_unknown(
        logging.getLogger("test")
    )
    settings("port=1").warn_of_unknown(logging.getLogger("test"))

    assert [each.getMessage() for each in caplog.records] == ["unknown settings are ignored keys=a.b,prot"]


def test_another_name_of_a_setting_is_checked_like_it() -> None:
    with pytest.raises(ConfigError, match=r"alias\.port=x: Not a number"):
        settings("alias.port=x")


def test_what_was_not_given_is_refused_by_its_name() -> None:
    assert str(settings().refusal("port", "is needed")) == "port: is needed"


def test_an_origin_without_a_place_is_silent() -> None:
    assert str(Origin(Layer.DEFAULT)) == ""
