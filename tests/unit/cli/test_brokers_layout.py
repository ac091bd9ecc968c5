"""The directory of --brokers N: ports that stay, a quorum that grows, and what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.broker.controller.metadata_formatting import bootstrap_records
from ottla.broker.controller.metadata_snapshots import snapshots
from ottla.cli.servers.brokers_layout import (
    LAYOUT_FILE,
    LAYOUT_VERSION,
    LayoutError,
    grown_layout,
    lay_out,
    new_layout,
    node_directory,
)
from ottla.core.decisions.first_users import first_users


def laid_out(directory: Path, brokers: int, first_port: int = 9092, cluster_id: str | None = None):  # type: ignore[no-untyped-def]
    return lay_out(directory, brokers, first_port, cluster_id, "CONTROLLER")


def problem(directory: Path, brokers: int, cluster_id: str | None = None) -> str:
    with pytest.raises(LayoutError) as refused:
        laid_out(directory, brokers, cluster_id=cluster_id)
    return str(refused.value)


@pytest.mark.parametrize(
    ("brokers", "broker_ports", "controllers"),
    [
        (1, [9092], {1: 9093}),
        (2, [9092, 9093], {1: 9094}),
        (3, [9092, 9093, 9094], {1: 9095, 2: 9096, 3: 9097}),
        (5, [9092, 9093, 9094, 9095, 9096], {1: 9097, 2: 9098, 3: 9099}),
    ],
)
def test_controllers_listen_behind_the_brokers(
    brokers: int, broker_ports: list[int], controllers: dict[int, int]
) -> None:
    layout = new_layout(brokers, 9092, "c")
    assert layout.broker_ports(9092) == broker_ports
    assert layout.controllers == controllers
    assert layout.first_voters.keys() == controllers.keys()


def test_controllers_keep_their_ports_when_brokers_come() -> None:
    grown = grown_layout(new_layout(3, 9092, "c"), 5, 9092)
    assert grown.controllers == {1: 9095, 2: 9096, 3: 9097}
    assert grown.broker_ports(9092) == [9092, 9093, 9094, 9098, 9099]


@pytest.mark.parametrize("first", [1, 2])
def test_a_quorum_of_one_grows_by_voters_that_join_later(first: int) -> None:
    layout = new_layout(first, 9092, "c")
    grown = grown_layout(layout, 4, 9092)
    assert grown.first_voters == layout.first_voters
    assert grown.controllers[1] == layout.controllers[1]
    ports = [*grown.broker_ports(9092), *grown.controllers.values()]
    assert len(set(ports)) == 7 and sorted(ports) == list(range(9092, 9099))


def test_another_first_port_moves_the_brokers_only() -> None:
    layout = grown_layout(new_layout(3, 9092, "c"), 3, 19092)
    assert layout.broker_ports(19092) == [19092, 19093, 19094]
    assert layout.bootstrap_servers == "127.0.0.1:9095,127.0.0.1:9096,127.0.0.1:9097"


def test_there_must_be_so_many_ports() -> None:
    with pytest.raises(LayoutError, match="there are no 6 ports from 65531 on: listen on a lower one"):
        new_layout(3, 65531, "c")


def test_a_restart_finds_what_the_first_start_made(tmp_path: Path) -> None:
    first = laid_out(tmp_path / "data", 3)
    assert first.formatted
    assert laid_out(tmp_path / "data", 3) == first
    for node_id in (1, 2, 3):
        directory = node_directory(tmp_path / "data", node_id)
        assert f"node.id={node_id}" in (directory / "meta.properties").read_text()
        assert f"cluster.id={first.cluster_id}" in (directory / "meta.properties").read_text()
        assert len(snapshots(directory / "__cluster_metadata-0")) == 1


def test_a_format_that_was_cut_off_is_done_again_with_the_same_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.cli.servers import brokers_layout

    real = brokers_layout.format_directory

    def cut_off(path: Path, **what: object) -> bool:
        if path.name == "node-2":
            raise KeyboardInterrupt
        return real(path, **what)  # type: ignore[arg-type]

    monkeypatch.setattr(brokers_layout, "format_directory", cut_off)
    with pytest.raises(KeyboardInterrupt):
        laid_out(tmp_path, 3)
    kept = json.loads((tmp_path / LAYOUT_FILE).read_text())
    assert not kept["formatted"]
    monkeypatch.undo()
    layout = laid_out(tmp_path, 3)
    assert json.loads((tmp_path / LAYOUT_FILE).read_text()) == {**kept, "formatted": True}
    assert layout.formatted


def test_a_controller_that_has_lost_its_directory_is_not_formatted_again(tmp_path: Path) -> None:
    laid_out(tmp_path, 3)
    node_directory(tmp_path, 2).rename(tmp_path / "elsewhere")
    laid_out(tmp_path, 3)
    assert not node_directory(tmp_path, 2).exists()


def test_a_given_cluster_id_is_taken_and_then_required(tmp_path: Path) -> None:
    assert laid_out(tmp_path, 1, cluster_id="mine").cluster_id == "mine"
    assert laid_out(tmp_path, 1).cluster_id == "mine"
    assert "belongs to cluster mine, not to yours" in problem(tmp_path, 1, "yours")


def test_a_single_brokers_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    assert "is the directory of a single broker: start it without --brokers" in problem(tmp_path, 3)
    assert not (tmp_path / LAYOUT_FILE).exists()


def test_fewer_brokers(tmp_path: Path) -> None:
    laid_out(tmp_path, 5)
    for node_id in (4, 5):
        node_directory(tmp_path, node_id).mkdir()
    assert "has 5 brokers: give --brokers 5, or move" in problem(tmp_path, 4)
    assert "remove node-4, node-5" in problem(tmp_path, 3)
    assert "has nodes 1 to 3 as its quorum: give --brokers 3 at least" in problem(tmp_path, 2)
    node_directory(tmp_path, 5).rmdir()
    assert laid_out(tmp_path, 4).brokers == 4


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"version": 2}',
        json.dumps(
            {
                "version": LAYOUT_VERSION,
                "cluster.id": "c",
                "brokers": 3,
                "controllers": {"1": 99999},
                "first.voters": {},
                "formatted": True,
            }
        ).encode(),
    ],
)
def test_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LAYOUT_FILE).write_bytes(content)
    assert "is damaged" in problem(tmp_path, 3)


def test_the_first_users_are_formatted_with_the_first_voters(tmp_path: Path) -> None:
    users = first_users("SCRAM-SHA-256=[name=admin,password=secret]", bytes)
    lay_out(tmp_path, 3, 9092, None, "CONTROLLER", lambda: users)
    for node_id in (1, 2, 3):
        assert users[0] in bootstrap_records(tmp_path / f"node-{node_id}")
    # a second start changes nothing, whatever it is given
    lay_out(tmp_path, 3, 9092, None, "CONTROLLER", lambda: pytest.fail("it is formatted"))
