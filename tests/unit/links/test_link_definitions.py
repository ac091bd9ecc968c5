"""Definitions of links: what is taken, what is refused, and what is shown."""

from __future__ import annotations

import json

import pytest

from ottla.core.links.definition import (
    InvalidLink,
    LinkDefinition,
    decode_definition,
    encode_definition,
    links_of,
    parse_source,
    setting_of_link,
)

SECRETS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "a.Module required username=me password=hush;",
    "ssl.truststore.password": "quiet",
}


def link(**values: object) -> LinkDefinition:
    given: dict[str, object] = {
        "name": "berlin",
        "source": (("host", 9092),),
        "topics": ("orders",),
        **values,
    }
    return LinkDefinition(**given)  # type: ignore[arg-type]


def test_a_definition_comes_back_as_it_was() -> None:
    made = link(
        patterns=("a.*",),
        excludes=("ab",),
        groups=None,
        acls=False,
        interval_ms=200,
        settings=SECRETS,
        bytes_per_second=5000,
    )
    assert decode_definition("berlin", encode_definition(made)) == made


def test_secrets_are_never_shown() -> None:
    shown = json.dumps(link(settings=SECRETS).shown())
    assert "hush" not in shown
    assert "quiet" not in shown
    assert "SASL_SSL" in shown


def test_topics_are_chosen_by_name_pattern_and_exclusion() -> None:
    chosen = link(patterns=(r"app\..*",), excludes=(r"app\.no.*",))
    assert [chosen.selects(each) for each in ("orders", "app.a", "app.not", "x.app.a", "order")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    everything = link(patterns=(".*",))
    assert not everything.selects("__consumer_offsets")
    assert not everything.selects("_ottla_links")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": "nowhere"}, "no address"),
        ({"source": "host:0"}, "no address"),
        ({"topics": []}, "no topics"),
        ({"patterns": ["("]}, "no regular expression"),
        ({"groups": "["}, "no regular expression"),
        ({"interval_ms": 1}, "interval_ms"),
        ({"bytes_per_second": -1}, "bytes_per_second"),
        ({"bytes_per_second": True}, "bytes_per_second"),
        ({"acls": "yes"}, "acls"),
        ({"settings": {"bootstrap.servers": "x:1"}}, "security alone"),
        ({"settings": {"security.protocol": "HTTPS"}}, "HTTPS"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_wrong_definition_is_refused_in_one_line(change: dict[str, object], words: str) -> None:
    text = json.dumps(json.loads(encode_definition(link())) | change)
    with pytest.raises(InvalidLink) as refused:
        decode_definition("berlin", text)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_what_is_no_definition_is_refused(text: str) -> None:
    with pytest.raises(InvalidLink):
        decode_definition("berlin", text)


@pytest.mark.parametrize("name", ["", "a b", "ü", "x" * 101, "a.b"])
def test_names_are_plain(name: str) -> None:
    with pytest.raises(InvalidLink):
        decode_definition(name, encode_definition(link()))


def test_links_are_found_among_the_settings_of_brokers() -> None:
    assert links_of({setting_of_link("a"): "1", "log.retention.ms": "2"}) == {"a": "1"}
    assert parse_source("a:1,[::1]:2") == (("a", 1), ("::1", 2))
