"""The settings of an application: flat keywords in, groups out."""

from __future__ import annotations

import dataclasses
import inspect
import os
from pathlib import Path
from typing import Any

import pytest

from ottla.client.access import ClusterAccess
from ottla.config.telemetry_settings import OtlpTarget
from ottla.metrics.settings import Address, EndpointOptions
from ottla.pipeline.query.realtime import Wanted
from ottla.streams import StreamsSettings
from ottla.streams.run.settings import Beginning, Pace, Place, SparkChoice, Watching

GIVEN: dict[str, Any] = {
    "bootstrap": "far:9092",
    "state": Path("there"),
    "dead_letters": "dead",
    "master": "local[2]",
    "partitions": 7,
    "driver_memory": "3g",
    "batch_records": 5,
    "trigger_interval_ms": 6,
    "until_caught_up": True,
    "heartbeat_ms": 8,
    "mode": Wanted.MICRO_BATCH,
    "at_least_once": True,
    "global_table_check_ms": 9,
    "replay_from_ms": 10,
    "forget_lost_state": True,
    "metrics_port": 11,
    "metrics": "far:13",
    "metrics_users": Path("readers"),
    "metrics_config": Path(os.devnull),
    "queries_port": 12,
    "traces": OtlpTarget("http://127.0.0.1:13"),
    "client_options": {"client.id": "me"},
    "spark_properties": {"spark.ui.enabled": "true"},
}


def test_every_keyword_is_in_its_group() -> None:
    assert set(GIVEN) == set(inspect.signature(StreamsSettings).parameters)
    settings = StreamsSettings(**GIVEN)

    assert settings.place == Place(ClusterAccess("far:9092", {"client.id": "me"}), Path("there"), "dead")
    assert settings.spark == SparkChoice("local[2]", 7, "3g", {"spark.ui.enabled": "true"})
    assert settings.pace == Pace(6, 5, True, Wanted.MICRO_BATCH, True)
    assert settings.beginning == Beginning(10, True)
    endpoint = EndpointOptions(Address("far", 13), "readers")
    assert settings.watching == Watching(8, 9, endpoint, 12, OtlpTarget("http://127.0.0.1:13"))
    default = StreamsSettings()
    for group in dataclasses.fields(settings):
        assert getattr(default, group.name) != getattr(settings, group.name)


def test_a_beginning_after_a_reset_changes_nothing_else() -> None:
    assert StreamsSettings(**{**GIVEN, "replay_from_ms": None}).replayed_from(10) == StreamsSettings(**GIVEN)


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        StreamsSettings().pace = StreamsSettings().pace  # type: ignore[misc]


def test_the_environment_names_the_cluster_and_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "far:9092")
    monkeypatch.setenv("OTTLA_STREAMS_STATE", "there")

    assert StreamsSettings.from_environment() == StreamsSettings("far:9092", Path("there"))
