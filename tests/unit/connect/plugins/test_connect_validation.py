"""Judgements of configurations, compared with those that were recorded from Java's Connect."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.core.errors import Refused
from ottla.connect.plugins.catalog import Catalog, installed_plugins
from ottla.connect.plugins.definition_validation import WorkerView, plugin_definitions, validated
from ottla.connect.plugins.overrides import OverridePolicy, Policy
from support.connect.file_plugins import PLUGINS
from support.connect.http_answers import differences
from support.connect.http_script import SINK, SOURCE, script

TRANSCRIPT = Path(__file__).parents[3] / "services" / "connect" / "http_transcript.json"
CLASS = re.compile(r"org\.apache\.kafka\.connect\.[A-Za-z.$]+[A-Za-z]")
STRING = "org.apache.kafka.connect.storage.StringConverter"
SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
VIEW = WorkerView(
    {"key.converter": STRING, "value.converter": STRING, "header.converter": SIMPLE},
    "connect-cluster",
    is_reference=lambda text: "${file:" in text,
)


def catalog() -> Catalog:
    names = {name for each in PLUGINS for name in each.names}
    return Catalog([*PLUGINS, *(each for each in installed_plugins().plugins if not names & {*each.names})])


def recorded(said: str) -> list[tuple[Any, Any]]:
    answers = json.loads(TRANSCRIPT.read_text(encoding="utf-8"))
    names = {name for plugin in catalog().plugins for name in plugin.names}
    return [
        (call, answer["answer"])
        for call, answer in zip(script("DIRECTORY"), answers, strict=True)
        if call.said == said
        and answer["status"] == 200
        and all(each in names for each in CLASS.findall(f"{call.path} {json.dumps(call.body)}"))
    ]


@pytest.mark.parametrize("number", range(len(recorded("fields"))))
def test_a_judgement_is_that_of_kafka_connect(number: int) -> None:
    call, theirs = recorded("fields")[number]
    ours = json.loads(json.dumps(validated(catalog(), call.body, VIEW).as_json()))
    found = [each for each in differences("fields", theirs, ours) if "recommended" not in each]
    assert not found, call.body


@pytest.mark.parametrize("number", range(len(recorded("keys"))))
def test_definitions_are_those_of_kafka_connect(number: int) -> None:
    call, theirs = recorded("keys")[number]
    definitions = plugin_definitions(catalog(), call.path.split("/")[2])
    assert definitions is not None
    assert not differences("keys", theirs, json.loads(json.dumps([each.as_json() for each in definitions])))


def source(**more: str | None) -> dict[str, str | None]:
    return {"connector.class": SOURCE, "name": "v", "topic": "t", **more}


def errors(config: dict[str, str | None], view: WorkerView = VIEW) -> list[str]:
    return validated(catalog(), config, view).errors


def test_a_configuration_without_a_class_is_refused_without_its_secrets() -> None:
    with pytest.raises(Refused, match="contains no connector type") as refused:
        validated(catalog(), {"password": "pw", "a": "b"}, VIEW)
    assert "pw" not in refused.value.message and "a=b" in refused.value.message


def test_a_reference_to_a_secret_is_shown_as_it_is_and_not_judged() -> None:
    infos = validated(catalog(), source(**{"batch.size": "${file:/x:size}"}), VIEW)
    assert not infos.errors
    (value,) = [each for each in infos.values if each.name == "batch.size"]
    assert value.text == "${file:/x:size}"


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (OverridePolicy(), {"linger.ms", "sasl.jaas.config"}),
        (OverridePolicy(Policy.NONE), set()),
        (OverridePolicy(Policy.PRINCIPAL), {"sasl.jaas.config"}),
        (OverridePolicy(Policy.ALLOWLIST, frozenset({"linger.ms"})), {"linger.ms"}),
    ],
)
def test_the_policy_says_which_properties_of_clients_a_connector_sets(
    policy: OverridePolicy, allowed: set[str]
) -> None:
    for name in ("linger.ms", "sasl.jaas.config"):
        found = validated(
            catalog(), source(**{f"producer.override.{name}": "secret"}), WorkerView(overrides=policy)
        )
        assert bool(found.errors) is (name not in allowed)
        if found.errors:
            assert found.errors == [
                f"The '{policy.policy}' policy does not allow '{name}' to be overridden in the connector "
                "configuration."
            ]
        shown = json.dumps(found.as_json())
        assert ("secret" in shown) is (name == "linger.ms")


def test_a_sink_may_not_share_the_workers_group() -> None:
    sink = {"connector.class": SINK, "topics": "t", "name": "cluster"}
    assert any("conflicts with Connect worker group" in each for each in errors(sink))
    sink = {**sink, "name": "v", "consumer.override.group.id": "connect-cluster"}
    assert any("conflicts with Connect worker group" in each for each in errors(sink))


def test_exactly_once_has_to_be_there_where_it_is_required() -> None:
    config = source(**{"exactly.once.support": "required"})
    assert errors(config) == ["This worker does not have exactly-once source support enabled."]
    assert not errors(config, WorkerView(exactly_once=True))


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [("4.3.1", True), ("latest", True), ("[4.0,5.0)", True), ("(4.3.1,5.0)", False), ("5.0", False)],
)
def test_the_version_of_a_connector_may_be_asked_for(wanted: str, fits: bool) -> None:
    assert (not errors(source(**{"connector.plugin.version": wanted}))) is fits
