"""Damage is found where a checksum covers it, and never ends a check or a dump with a traceback."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.cli.main import main
from ottla.storage.inspection.verification import Verification
from support.storage.written_directories import write_data_directory

# Of these files every byte counts.
EVERY_BYTE_COUNTS = (".snapshot",)
SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sound") / "data"
    write_data_directory(directory, seed=3)
    return directory


@contextlib.contextmanager
def changed(path: Path, content: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)


def files_of(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)


def looks_without_a_traceback(path: Path) -> None:
    """Dump and verify, as a user does: both end with 0 or 1."""
    for words in (
        ["verify", "--json"],
        ["dump", "--payload", "--json"],
        ["dump", "--offset", "40", "--to", "90"],
    ):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert main(["log", *words, str(path)]) in (0, 1)


@SETTINGS
@given(st.data())
def test_flipped_bits_are_found_in_the_records_of_a_segment(sound: Path, data: st.DataObject) -> None:
    segment = data.draw(st.sampled_from([path for path in files_of(sound) if path.suffix == ".log"]))
    content = bytearray(segment.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1), label="byte")
    content[at] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    with changed(segment, bytes(content)):
        found = list(Verification(gaps=True).path(sound))
        assert found, "a check of the whole directory sees every bit of a segment"
        # the place that is named first is at or before the damage, and in a file that the damage concerns
        assert found[0].path.parent in (segment.parent, sound)
        looks_without_a_traceback(segment.parent)


@SETTINGS
@given(st.data())
def test_any_damage_ends_with_problems_or_without_never_with_a_traceback(
    sound: Path, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(files_of(sound)))
    content = path.read_bytes()
    kind = data.draw(st.sampled_from(["flip", "truncate", "insert", "random", "repeat", "empty", "other"]))
    match kind:
        case "flip":
            damaged = bytearray(content)
            for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
                damaged[at] = data.draw(st.integers(0, 255))
        case "truncate":
            damaged = bytearray(content[: data.draw(st.integers(0, len(content) - 1))])
        case "insert":
            at = data.draw(st.integers(0, len(content)))
            damaged = bytearray(content[:at] + data.draw(st.binary(min_size=1, max_size=40)) + content[at:])
        case "random":
            damaged = bytearray(data.draw(st.binary(max_size=300)))
        case "repeat":
            damaged = bytearray(content + content)
        case "empty":
            damaged = bytearray()
        case _:  # the content of another file
            damaged = bytearray(data.draw(st.sampled_from(files_of(sound))).read_bytes())
    with changed(path, bytes(damaged)):
        found = list(Verification().path(sound))
        if path.suffix in EVERY_BYTE_COUNTS and bytes(damaged) != content:
            assert found
        looks_without_a_traceback(path)


def test_damage_makes_no_check_write(sound: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(sound, copy)
    for path in files_of(copy):
        path.write_bytes(path.read_bytes()[:-3])
    before = {path: path.read_bytes() for path in files_of(copy)}
    for path in copy.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert list(Verification().path(copy))
    looks_without_a_traceback(copy)
    assert {path: path.read_bytes() for path in files_of(copy)} == before
    for path in copy.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
