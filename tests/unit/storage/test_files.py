"""Files by descriptor, on platforms with and without pread."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.storage.files import FileHandle, OpenFiles, create_file, open_for_reading, replace_file
from support.storage.logs import fill, offsets, open_log


@pytest.mark.parametrize("pread", [True, False])
def test_reads_and_writes_go_to_their_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pread: bool
) -> None:
    if not pread:
        monkeypatch.delattr(os, "pread")
        monkeypatch.delattr(os, "pwrite")
    file = create_file(str(tmp_path / "file"))

    file.write(b"hello ", 0)
    assert file.read(3, 2) == b"llo"
    file.write(memoryview(b"world"), 6)

    assert file.read(100, 4) == b"o world"
    assert file.read(1, 11) == b""


def test_a_log_works_without_pread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pread")
    monkeypatch.delattr(os, "pwrite")
    log = open_log(tmp_path)
    fill(log, 60)
    log.close()

    assert offsets(open_log(tmp_path, clean_shutdown=True)) == list(range(60))


def test_short_writes_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write = os.write
    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, data[:3]))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: real_pwrite(fd, data[:3], position))

    create_file(str(tmp_path / "file")).write(b"hello world", 0)
    replace_file(tmp_path / "other", b"hello world", sync=True)

    assert (tmp_path / "file").read_bytes() == (tmp_path / "other").read_bytes() == b"hello world"


def test_a_handle_closes_with_its_last_reference(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    handle = open_for_reading(str(tmp_path / "file"))
    fd = handle.fd

    del handle

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


class User:
    """Keeps a handle, as a segment does."""

    def __init__(self, path: Path) -> None:
        self.handle: FileHandle | None = create_file(str(path))
        self.recently_used = False


def test_the_least_recently_used_handle_is_dropped(tmp_path: Path) -> None:
    open_files = OpenFiles(limit=2)
    users = [User(tmp_path / str(number)) for number in range(4)]
    open_files.opened(users[0])
    open_files.opened(users[1])
    users[0].recently_used = True

    open_files.opened(users[2])
    assert [user.handle is not None for user in users[:3]] == [True, False, True]
    users[0].handle = None  # closed by its user
    users[2].recently_used = True
    open_files.opened(users[3])
    assert [user.handle is not None for user in users] == [False, False, True, True]
