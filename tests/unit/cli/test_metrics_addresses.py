"""Where the nodes of --brokers N serve their metrics: each on a port of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.servers.brokers import LaunchOptions, prepare
from ottla.config.errors import ConfigError
from ottla.config.sources import Given


def addresses(directory: Path, listen: str | None, brokers: int = 3) -> list[str | None]:
    """The settings that the nodes are started with."""
    given = {"log.dirs": Given(str(directory)), "listeners": Given("PLAINTEXT://127.0.0.1:0")}
    if listen is not None:
        given["ottla.metrics.listen"] = Given(listen)
    launch = prepare(LaunchOptions(brokers, given, None, (), "warning", None))
    found = []
    for node in launch.nodes:
        named = [word.partition("=")[2] for word in node.words if word.startswith("ottla.metrics.listen=")]
        found.append(named[-1] if named else None)
    return found


def test_the_ports_follow_each_other(tmp_path: Path) -> None:
    expected = ["127.0.0.1:9404", "127.0.0.1:9405", "127.0.0.1:9406"]
    assert addresses(tmp_path, "127.0.0.1:9404") == expected


def test_tls_and_addresses_of_ipv6_stay(tmp_path: Path) -> None:
    assert addresses(tmp_path, "https://[::1]:9404", 2) == ["https://[::1]:9404", "https://[::1]:9405"]


def test_port_0_is_any_free_one_for_each(tmp_path: Path) -> None:
    assert addresses(tmp_path, "127.0.0.1:0", 2) == ["127.0.0.1:0", "127.0.0.1:0"]


def test_without_metrics_no_node_has_any(tmp_path: Path) -> None:
    assert addresses(tmp_path, None, 2) == [None, None]


def test_ports_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no port for node 3"):
        addresses(tmp_path, "127.0.0.1:65534")
