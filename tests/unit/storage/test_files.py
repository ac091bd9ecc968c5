"""Files by descriptor, on platforms with and without pread."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.storage.directory_files import CAN_PIN, DirectoryFiles
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


def no_room(*_: Any, **__: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_room_for_the_name(source: str, _target: Path | str, **__: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)


def half_of_it(fd: int, data: Any, *, write: Callable[[int, Any], int] = os.write) -> int:
    """What a disk takes of five bytes that has room for two."""
    return write(fd, data[:2]) if len(data) == 5 else no_room()


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize(
    ("call", "instead"), [("write", half_of_it), ("fsync", no_room), ("replace", no_room_for_the_name)]
)
def test_a_replacement_that_finds_no_room_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    instead: Callable[..., int],
    pinned: bool,
) -> None:
    (tmp_path / "file").write_bytes(b"older")
    files = DirectoryFiles.pinned(tmp_path, None) if pinned else DirectoryFiles(tmp_path)
    monkeypatch.setattr(os, call, instead)

    for replace in (
        lambda: replace_file(tmp_path / "file", b"newer", sync=True),
        lambda: files.replace("file", b"newer", sync=True),
    ):
        with pytest.raises(OSError, match="No space left") as refused:
            replace()

        assert Path(refused.value.filename).name == "file.tmp"
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"older"}


@pytest.mark.skipif(not CAN_PIN, reason="needs operations relative to an open directory")
def test_an_error_in_a_pinned_directory_names_the_file_with_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = DirectoryFiles.pinned(tmp_path, None)
    handle = files.overwrite("file")

    with pytest.raises(FileNotFoundError) as missing:
        files.open("other")
    monkeypatch.setattr(os, "write", no_room)
    monkeypatch.setattr(os, "pwrite", no_room)
    with pytest.raises(OSError, match="No space left") as refused:
        handle.append(b"more")
    with pytest.raises(OSError, match="No space left") as refused_in_place:
        handle.write(b"more", 0)

    assert missing.value.filename == str(tmp_path / "other")
    assert refused.value.filename == refused_in_place.value.filename == str(tmp_path / "file")


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
