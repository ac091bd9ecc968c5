"""A small disk of its own for a server: a tmpfs that tests fill, and make room on again."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.servers.ottla_broker import OttlaBroker

SIZE = "8m"
PAGE_KIB = 4
"""What a tmpfs gives out: a file of one byte takes as much."""
NO_CHECKPOINTS = {
    "log.cleaner.backoff.ms": "50",
    "log.flush.offset.checkpoint.interval.ms": "600000",
    "log.flush.start.offset.checkpoint.interval.ms": "600000",
    "replica.high.watermark.checkpoint.interval.ms": "600000",
}


def in_own_mounts(script: str) -> list[str]:
    """A command that runs a shell script in a mount namespace of its own, which ends with it."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]


def may_mount() -> bool:
    """Whether this process may mount a tmpfs in a namespace of its own."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(in_own_mounts("mount -t tmpfs none /mnt"), capture_output=True, check=False)
    return tried.returncode == 0


needs_a_disk = pytest.mark.skipif(
    not may_mount(), reason="needs to mount a tmpfs in a namespace of its own (as root)"
)


class FullDisk:
    """A mounted tmpfs. `outside` is its path for this process, `enter` the prefix of a server's command."""

    def __init__(self, mount_point: Path, holder: subprocess.Popen[bytes]) -> None:
        self.outside = Path(f"/proc/{holder.pid}/root{mount_point}")
        self.enter = ["nsenter", "--mount", f"--target={holder.pid}"]

    def fill(self, free_kib: int = 0) -> None:
        """Leave so much room."""
        self.make_room()
        size = shutil.disk_usage(self.outside).free - free_kib * 1024
        if size > 0:
            with (self.outside / "ballast").open("wb") as ballast:
                os.posix_fallocate(ballast.fileno(), 0, size)

    def make_room(self) -> None:
        """All that `fill` took is free again."""
        (self.outside / "ballast").unlink(missing_ok=True)


@contextlib.contextmanager
def mounted_disk(mount_point: Path, size: str = SIZE) -> Iterator[FullDisk]:
    """A disk at the directory `mount_point`, which is made, for as long as the block lasts."""
    mount_point.mkdir()
    holder = subprocess.Popen(
        in_own_mounts(f"mount -t tmpfs -o size={size} none {mount_point} && echo mounted && exec sleep 900"),
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"mounted\n"
        yield FullDisk(mount_point, holder)
    finally:
        holder.kill()
        holder.wait()


@contextlib.contextmanager
def broker_on_a_disk(
    tmp_path: Path, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[OttlaBroker, FullDisk]]:
    """A broker that is still to start, and whose directory, still to be made, is on a disk of its own.

    It makes no checkpoints of itself: one that fails would end it.
    """
    data = tmp_path / "disk" / "data"
    with mounted_disk(data.parent) as disk:
        broker = OttlaBroker.prepare(data, settings={**NO_CHECKPOINTS, **(settings or {})})
        broker.server.command = [*disk.enter, *broker.server.command]
        try:
            yield broker, disk
        finally:
            if broker.server.running:
                broker.kill()


def disk_lines(said: str, data: Path) -> list[str]:
    """What a broker said of a disk without room: no traceback, and each line names a file below `data`."""
    lines = [line for line in said.splitlines() if "No space left on device" in line]
    assert lines and all(str(data) in line for line in lines), said
    assert "Traceback" not in said
    return lines
