"""The archive of Spark's classes: made once, safe against kills, changes and unwritable caches."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest

from ottla.pipeline.file_lock import FileLock
from ottla.pipeline.spark import class_archive
from ottla.pipeline.spark.class_archive import ArchiveError, ArchiveMaking, class_list, make, may_be_made
from ottla.pipeline.spark.java_runtime import JavaRuntime, find_java
from ottla.pipeline.spark.jvm_home import JvmCommand, JvmHome

BOUND_SECONDS = 60.0
LOADED = "java/lang/Object id: 0\norg/apache/spark/sql/execution/streaming/MicroBatchExecution id: 7\n"
# Writes its archive in two halves; the directory may hold a file that makes it fail, or kill its parent.
JAVA = """#!/bin/sh
for argument do
  case "$argument" in
    -XX:SharedArchiveFile=*) archive="${argument#-XX:SharedArchiveFile=}" ;;
    -Xshare:on) try=yes ;;
  esac
done
test -n "$try" && exec test -s "$archive"
printf half > "$archive"
test -e kill-it && kill -9 $PPID
test -e fail && { echo "no such memory" >&2; exit 1; }
printf whole > "$archive"
"""


class Making(NamedTuple):
    """A home with a command, a Java that is a script, and a list of loaded classes."""

    home: JvmHome
    java: Path
    loaded: Path

    def run(self) -> None:
        make(self.home, self.java, self.loaded)


@pytest.fixture
def making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Making:
    monkeypatch.chdir(tmp_path)
    home = JvmHome(tmp_path / "jvm" / "home")
    assert home.remember(JvmCommand("a.jar:b.jar", ("--add-opens=x",)))
    java = tmp_path / "java"
    java.write_text(JAVA)
    java.chmod(0o755)
    return Making(home, java, listed(home))


def listed(home: JvmHome) -> Path:
    loaded = class_archive.new_list(home)
    assert loaded is not None
    loaded.write_text(LOADED)
    return loaded


def names(home: JvmHome) -> set[str]:
    return {path.name for path in home.directory.iterdir()}


def test_an_archive_is_made_once_and_leaves_nothing_else(making: Making) -> None:
    making.run()
    assert making.home.archive.read_text() == "whole"
    assert names(making.home) == {"classes.jsa", "command.json", "lock"}

    making.home.archive.write_text("kept")
    making._replace(loaded=listed(making.home)).run()
    assert making.home.archive.read_text() == "kept"


def test_a_making_that_is_killed_leaves_no_archive_and_the_next_one_clears_up(
    making: Making, tmp_path: Path
) -> None:
    (tmp_path / "kill-it").touch()
    words = [str(making.home.directory), str(making.java), str(making.loaded)]
    killed = subprocess.run(
        [sys.executable, "-m", class_archive.__name__, *words], cwd=tmp_path, timeout=BOUND_SECONDS
    )
    assert killed.returncode == -signal.SIGKILL
    assert not making.home.archive.exists()
    assert any(name.startswith(".classes-") for name in names(making.home))

    (tmp_path / "kill-it").unlink()
    making.run()
    assert making.home.archive.read_text() == "whole"
    assert names(making.home) == {"classes.jsa", "command.json", "lock"}


def test_of_two_makings_at_once_one_does_the_work(making: Making) -> None:
    other = FileLock(making.home.lock_path)
    assert other.acquire()
    making.run()
    assert not making.home.archive.exists()
    other.release()


def test_a_failure_is_told_and_not_tried_again_for_a_day(making: Making, tmp_path: Path) -> None:
    (tmp_path / "fail").touch()
    with pytest.raises(ArchiveError, match="no such memory"):
        making.run()
    assert "no such memory" in making.home.failure_path.read_text()
    assert names(making.home) == {"command.json", "failed", "lock"}
    assert not may_be_made(making.home)

    past = time.time() - class_archive.RETRY_SECONDS - 1
    os.utime(making.home.failure_path, (past, past))
    assert may_be_made(making.home)


def test_a_session_without_a_query_makes_no_archive(making: Making) -> None:
    making.loaded.write_text("java/lang/Object id: 0\n")
    making.run()
    assert names(making.home) == {"command.json", "lock"}


def test_the_making_starts_once_at_a_session_s_end_and_goes_on_without_it(making: Making) -> None:
    session = ArchiveMaking(making.home, making.java, making.loaded, after_seconds=3600)
    session.close()
    session.close()
    deadline = time.monotonic() + BOUND_SECONDS
    while not making.home.archive.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_cache_that_cannot_be_written_or_is_full_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    nowhere = JvmHome(file / "jvm" / "home")
    assert class_archive.new_list(nowhere) is None
    assert not nowhere.remember(JvmCommand("a.jar", ()))
    assert nowhere.command() is None

    usage = shutil.disk_usage(tmp_path)._replace(free=class_archive.LEAST_FREE_BYTES - 1)
    monkeypatch.setattr(class_archive.shutil, "disk_usage", lambda path: usage)
    assert class_archive.new_list(JvmHome(tmp_path / "jvm" / "home")) is None


def test_a_line_that_was_being_written_is_left_out_and_packages_are_added(tmp_path: Path) -> None:
    jar = tmp_path / "spark-sql_2.13-9.jar"
    package = "org/apache/spark/sql/execution/streaming"
    with zipfile.ZipFile(jar, "w") as archive:
        for name in ("MicroBatchExecution.class", "state/Store.class", "notes.txt"):
            archive.writestr(f"{package}/{name}", b"")
        archive.writestr("org/apache/spark/sql/Other.class", b"")

    lines = list(class_list(LOADED + "org/apache/spa", os.pathsep.join((str(jar), str(tmp_path / "gone")))))

    assert lines == [*LOADED.splitlines(), f"{package}/state/Store"]


def test_homes_that_no_start_has_used_for_long_are_removed(making: Making) -> None:
    past = time.time() - class_archive.UNUSED_SECONDS - 1
    for name in ("old", "new"):
        (making.home.directory.parent / name).mkdir()
    os.utime(making.home.directory.parent / "old", (past, past))
    os.utime(making.home.directory, (past, past))
    making.run()
    assert {path.name for path in making.home.directory.parent.iterdir()} == {"home", "new"}


def test_another_jar_or_java_has_another_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    spark, further, runtime = tmp_path / "spark", tmp_path / "further.jar", tmp_path / "runtime"
    for path in (spark / "jars" / "core.jar", further, runtime / "release", runtime / "bin" / "java"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    java = JavaRuntime(runtime, runtime / "bin" / "java", 17, "PATH")

    def home() -> JvmHome | None:
        return JvmHome.of(java, spark, [further])

    seen = [home()]
    assert home() == seen[0]
    for path in (spark / "jars" / "core.jar", further, runtime / "release", spark / "jars" / "new.jar"):
        path.write_text("22")
        seen.append(home())
    os.utime(further, (1, 1))
    seen.append(home())
    assert len(set(seen)) == len(seen)
    assert JvmHome.of(java, spark, [tmp_path / "gone.jar"]) is None


@pytest.mark.slow
def test_java_starts_from_an_archive_and_goes_on_without_one_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = find_java()
    (spark_tags,) = (Path(pyspark.__file__).parent / "jars").glob("spark-tags_*.jar")
    jar = Path(shutil.copy(spark_tags, tmp_path))
    home = JvmHome(tmp_path / "jvm" / "home")
    assert home.remember(JvmCommand(str(jar), ("-XX:+IgnoreUnrecognizedVMOptions",)))
    loaded = listed(home)
    loaded.write_text(LOADED + "org/apache/spark/annotation/Unstable id: 9\n")
    make(home, runtime.executable, loaded)

    def starts(mode: str) -> bool:
        command = [str(runtime.executable), f"-Xshare:{mode}", f"-XX:SharedArchiveFile={home.archive}"]
        return subprocess.run([*command, "-cp", str(jar), "-version"], capture_output=True).returncode == 0

    assert starts("on")
    with jar.open("ab") as file:
        file.write(b"changed")
    assert not starts("on")
    assert starts("auto")
    home.archive.chmod(0o644)
    home.archive.write_bytes(home.archive.read_bytes()[:10_000])
    assert starts("auto")
