"""Which state is kept by snapshots, and that the session's settings come back."""

from __future__ import annotations

import pytest

from ottla.streams.dsl import Streams
from ottla.streams.plan.node import Node
from ottla.streams.plan.planner import plan
from ottla.streams.run.state_stores import CHANGELOG, settings_for, store_settings


def stateful(counted: bool) -> Node | None:
    app = Streams("app")
    stream = app.stream("in")
    (stream.group_by_key().count().to_stream() if counted else stream).to("out", value=int)
    (query,) = plan(app.topology()).queries
    return query.stateful


@pytest.mark.parametrize(
    ("counted", "version", "changelog"),
    [(True, "4.0.0", "false"), (True, "4.1.0", None), (True, "4.2.0", None), (False, "4.0.0", None)],
)
def test_aggregates_of_spark_4_0_are_kept_by_snapshots(
    counted: bool, version: str, changelog: str | None
) -> None:
    assert settings_for(stateful(counted), version).get(CHANGELOG) == changelog


class Settings:
    def __init__(self) -> None:
        self.values: dict[str, str] = {CHANGELOG: "true"}

    def get(self, name: str, default: str | None) -> str | None:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.values[name] = value


class Session:
    version = "4.0.0"

    def __init__(self) -> None:
        self.conf = Settings()


def test_the_sessions_settings_come_back_when_the_start_fails() -> None:
    session = Session()
    with pytest.raises(ValueError), store_settings(session, stateful(counted=True)):  # type: ignore[arg-type]
        assert session.conf.values[CHANGELOG] == "false"
        raise ValueError
    assert session.conf.values[CHANGELOG] == "true"
