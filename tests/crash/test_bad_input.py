"""A broker that can't start says so in one line, ends with an error, and changes nothing on disk."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.cluster import free_port
from support.ottla_broker import OttlaBroker
from support.wire import WireClient, batch

START_TIMEOUT_S = 30
LOCK_FILE = ".lock"  # made and locked before anything is looked at
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a start ended that should not succeed."""

    exit_code: int
    stdout: str
    stderr: str

    def says(self, *words: str) -> None:
        """One line on stderr with all of `words`, nothing on stdout, an exit code of failure."""
        assert self.exit_code not in (0, None)
        assert self.stdout == ""
        lines = self.stderr.splitlines()
        assert len(lines) == 1, self.stderr
        assert lines[0].startswith("ottla broker: ")
        for word in words:
            assert word in lines[0], f"{word!r} is not in {lines[0]!r}"


def start(data: Path, *arguments: str, port: int | None = None, as_owner_only: bool = False) -> Refusal:
    """Start a broker and wait for its end; one that starts after all is killed and fails the test."""
    listen = f"127.0.0.1:{free_port() if port is None else port}"
    command = [sys.executable, "-m", "ottla", "broker", "--data", str(data), "--listen", listen, *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_give_up_root_rights if as_owner_only else None,
    )
    try:
        output, errors = process.communicate(timeout=START_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        pytest.fail(f"the broker started: {output}{errors}")
    return Refusal(process.returncode, output, errors)


def _give_up_root_rights() -> None:
    """Let permissions hold for root too, in the child that is about to be."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def content(directory: Path) -> dict[str, bytes | None]:
    """Every file with its bytes, every directory; the lock file left out."""
    found: dict[str, bytes | None] = {}
    for path in sorted(directory.rglob("*")):
        if path.name != LOCK_FILE:
            found[str(path.relative_to(directory))] = path.read_bytes() if path.is_file() else None
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that a broker wrote: a topic with 3000 records in several segments, stopped cleanly."""
    data = tmp_path_factory.mktemp("written") / "data"
    with OttlaBroker.start(data) as broker, WireClient.connect(broker.bootstrap) as client:
        client.create_topic("full", config={"segment.bytes": "1048576"})
        for _ in range(30):
            assert client.produce("full", 0, batch(100, value=bytes(1000))).error_code == 0
    return data


@pytest.fixture
def data(written: Path, tmp_path: Path) -> Path:
    """A copy of `written` to break."""
    return Path(shutil.copytree(written, tmp_path / "data"))


def test_a_port_in_use(data: Path) -> None:
    before = content(data)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        start(data, port=port).says(f"127.0.0.1:{port}", "in use", "--listen")
    assert content(data) == before


def test_a_port_in_use_formats_nothing(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        start(tmp_path / "new", port=other.getsockname()[1]).says("in use")
    assert not (tmp_path / "new").exists()


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    start(tmp_path / "file").says(str(tmp_path / "file"), "is a file")
    start(tmp_path / "file" / "below").says(str(tmp_path / "file" / "below"))
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="directories have no such permissions there")
def test_a_directory_that_is_not_writable(data: Path, tmp_path: Path) -> None:
    before = content(data)
    locked_up = tmp_path / "locked-up"
    locked_up.mkdir()
    for directory in (data, locked_up):
        directory.chmod(0o500)
    try:
        start(data, as_owner_only=True).says(str(data), "not writable")
        start(locked_up, as_owner_only=True).says(str(locked_up), "not writable")
        start(locked_up / "new", as_owner_only=True).says(str(locked_up / "new"), "Permission denied")
    finally:
        for directory in (data, locked_up):
            directory.chmod(0o700)
    assert content(data) == before
    assert list(locked_up.iterdir()) == []


def test_a_directory_that_another_broker_uses(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with OttlaBroker.start(data) as broker, WireClient.connect(broker.bootstrap) as client:
        client.create_topic("mine")
        before = content(data)
        start(data).says(str(data), "in use by another broker")
        assert content(data) == before
        assert client.produce("mine", 0, batch()).error_code == 0


def test_a_directory_of_another_node(data: Path) -> None:
    before = content(data)
    start(data, "--set", "node.id=7").says(str(data), "belongs to node 1", "node.id=1")
    assert content(data) == before


def test_a_directory_of_another_cluster(data: Path, tmp_path: Path) -> None:
    # given the metadata of one cluster and the meta.properties of another
    other = tmp_path / "other"
    with OttlaBroker.start(other):
        pass
    shutil.copy(other / "meta.properties", data / "meta.properties")
    before = content(data)
    # when, then
    start(data).says(str(data), "another cluster", "meta.properties")
    assert_only_metadata_was_added(before, content(data))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "meta.properties"),
        (b"version=1\nnode.id=1\n", "cluster.id"),
        (b"version=1\ncluster.id=abc\nnode.id=one\n", "'one'"),
        (b"version=9\ncluster.id=abc\nnode.id=1\n", "version 9"),
        (b"\x00\xff\xfe garbage \x01" * 50, "meta.properties"),
    ],
)
def test_a_meta_properties_that_cannot_be_read(data: Path, text: bytes, why: str) -> None:
    (data / "meta.properties").write_bytes(text)
    before = content(data)
    start(data).says(str(data), why)
    assert content(data) == before


def test_logs_without_meta_properties(data: Path) -> None:
    (data / "meta.properties").unlink()
    before = content(data)
    start(data).says(str(data), "meta.properties")
    assert content(data) == before


def spoil_a_byte(path: Path, position: int) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[position] ^= 0xFF
    path.write_bytes(damaged)


def _segments(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def spoil_the_end_of_the_last_segment(data: Path) -> Path:
    path = _segments(data / "full-0")[-1]
    spoil_a_byte(path, path.stat().st_size - 5)
    return path


def spoil_the_metadata(data: Path) -> Path:
    path = _segments(data / "__cluster_metadata-0")[-1]
    spoil_a_byte(path, path.stat().st_size - 5)
    return path


@pytest.mark.parametrize("spoil", [spoil_the_end_of_the_last_segment, spoil_the_metadata])
def test_a_segment_that_was_damaged_after_a_clean_stop(data: Path, spoil: Callable[[Path], Path]) -> None:
    path = spoil(data)
    before = content(data)
    start(data).says("corrupt segment", str(path), "Nothing was changed")
    assert_only_metadata_was_added(before, content(data))
    # and again: the first refusal did not make the second start believe it
    start(data).says("corrupt segment", str(path))
    assert_only_metadata_was_added(before, content(data))


def test_what_was_flushed_and_is_damaged_before_an_unclean_stop(data: Path) -> None:
    # given a broker that was killed, and a flipped bit in a batch below the recovery point
    (data / ".kafka_cleanshutdown").unlink()
    path = _segments(data / "full-0")[-1]
    spoil_a_byte(path, 70)
    before = content(data)
    # when, then
    start(data).says("corrupt segment", str(path), "offset", "Nothing was changed")
    assert_only_metadata_was_added(before, content(data))


@pytest.mark.parametrize("which", [0, 1, -1])
def test_what_was_not_flushed_and_is_damaged_before_an_unclean_stop(data: Path, which: int) -> None:
    """The log is cut there, as Apache Kafka cuts it: replicas and readers count on a beginning of the log."""
    # given a broker that was killed before anything was flushed, and a flipped bit in the first batch
    (data / ".kafka_cleanshutdown").unlink()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (data / name).unlink(missing_ok=True)
    path = _segments(data / "full-0")[which]
    kept = int(path.stem)
    spoil_a_byte(path, 70)
    # when
    with OttlaBroker.start(data) as broker, WireClient.connect(broker.bootstrap) as client:
        # then
        assert sum(header.record_count for header, _ in client.read_batches("full", 0)) == kept
        assert client.produce("full", 0, batch(1)).base_offset == kept
        told = f"log cut above its recovery point, offsets {kept} to 2999 are gone path={path}"
        assert told in broker.server.log_path.read_text()


def assert_only_metadata_was_added(before: dict[str, bytes | None], after: dict[str, bytes | None]) -> None:
    """Every file is as it was, but that a start that fails may have begun a new epoch in the metadata log.

    It may also take the clean-shutdown marker away: the next start only checks more.
    """
    metadata = "__cluster_metadata-0/"
    changeable = {".kafka_cleanshutdown", metadata + "quorum-state", metadata + "leader-epoch-checkpoint"}
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if name.startswith(metadata) and name.endswith(".log"):
            assert new.startswith(old), name
        elif name not in changeable and not name.startswith(metadata):
            assert new == old, name


BAD_SETTINGS: list[tuple[Sequence[str], str]] = [
    (["--set", "num.partitions=many"], "num.partitions=many"),
    (["--set", "num.partitions=0"], "num.partitions=0"),
    (["--set", "log.segment.bytes=-1"], "log.segment.bytes=-1"),
    (["--set", "log.cleanup.policy=burn"], "log.cleanup.policy=burn"),
    (["--set", "compression.type=rar"], "compression.type=rar"),
    (["--set", "message.max.bytes=9999999999"], "message.max.bytes=9999999999"),
    (["--set", "auto.create.topics.enable=perhaps"], "auto.create.topics.enable=perhaps"),
    (["--set", "offsets.topic.num.partitions="], "offsets.topic.num.partitions"),
    (["--set", "num.partitions"], "key=value"),
    (["--set", "advertised.listeners=PLAINTEXT://127.0.0.1:99999"], "advertised.listeners"),
    (["--listen", "127.0.0.1:port"], "127.0.0.1:port"),
    (["--listen", "no-port"], "no-port"),
    (["--listen", "no.such.host.invalid:9092"], "no.such.host.invalid"),
    (["--set", "node.id=-3"], "node.id=-3"),
    (["--config", "does-not-exist.properties"], "does-not-exist.properties"),
]


@pytest.mark.parametrize(("arguments", "why"), BAD_SETTINGS, ids=lambda value: str(value)[:50])
def test_an_invalid_setting(data: Path, tmp_path: Path, arguments: Sequence[str], why: str) -> None:
    before = content(data)
    start(data, *arguments).says(why)
    assert content(data) == before
    start(tmp_path / "new", *arguments).says(why)
    assert not (tmp_path / "new").exists()


def test_an_invalid_line_in_the_configuration_file_is_named(data: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("num.partitions=3\nnum.io.threads=-4\n")
    before = content(data)
    start(data, "--config", str(properties)).says("num.io.threads", "-4")
    assert content(data) == before


def test_a_configuration_file_that_is_no_text(data: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_bytes(b"\\u00zz=1\n\x00\x80")
    start(data, "--config", str(properties)).says("server.properties")


def test_a_directory_that_was_refused_starts_once_it_is_mended(data: Path, written: Path) -> None:
    # given
    path = spoil_the_end_of_the_last_segment(data)
    start(data).says("corrupt segment")
    # when a good copy is put back, as the message says
    shutil.copy(written / path.relative_to(data), path)
    # then
    with OttlaBroker.start(data) as broker, WireClient.connect(broker.bootstrap) as client:
        assert client.fetch("full", [0], 2999)[0].high_watermark == 3000
