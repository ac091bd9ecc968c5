"""Pinned jars: the files on disk are whole and right, whatever the network does."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.pipeline.spark.maven import Jar, JarProgress, MavenError, base_address, fetch_jars
from support.servers.http_files import HttpFiles, http_files

CONTENT = b"a jar of a hundred kilobytes " * 4000
NO_WAIT = (0.0, 0.0)


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HttpFiles]:
    with http_files() as files:
        monkeypatch.setenv("OTTLA_MAVEN_BASE", files.base + "/")
        monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        yield files


def jar_in(repository: HttpFiles, content: bytes = CONTENT, artifact: str = "thing") -> Jar:
    jar = Jar("org.example.group", artifact, "1.2", hashlib.sha256(content).hexdigest())
    repository.files[jar.relative_path] = content
    return jar


def files_below(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


def test_a_jar_is_fetched_once_and_then_comes_from_the_cache(repository: HttpFiles) -> None:
    jar = jar_in(repository)

    first = fetch_jars([jar])
    second = fetch_jars([jar])

    assert first == second
    assert first[0].read_bytes() == CONTENT
    assert repository.requests == ["/org/example/group/thing/1.2/thing-1.2.jar"]


def test_progress_tells_bytes_and_ends_with_done(repository: HttpFiles) -> None:
    jar = jar_in(repository)
    told: list[JarProgress] = []

    fetch_jars([jar], told.append)

    assert told[-1] == JarProgress(jar, len(CONTENT), len(CONTENT), done=True)
    assert [step.received_bytes for step in told] == sorted(step.received_bytes for step in told)
    assert told[0].total_bytes == len(CONTENT)


def test_several_jars_keep_their_order_and_one_asked_for_twice_is_fetched_once(repository: HttpFiles) -> None:
    one, two = jar_in(repository, b"one", "one"), jar_in(repository, b"two", "two")

    paths = fetch_jars([two, one, two])

    assert [path.read_bytes() for path in paths] == [b"two", b"one", b"two"]
    assert len(repository.requests) == 2


def test_a_cut_connection_is_tried_again(repository: HttpFiles) -> None:
    jar = jar_in(repository)
    repository.cut_answers = 1

    (path,) = fetch_jars([jar], retry_delays_seconds=NO_WAIT)

    assert path.read_bytes() == CONTENT
    assert len(repository.requests) == 2


def test_a_connection_that_is_always_cut_leaves_nothing_behind(repository: HttpFiles, tmp_path: Path) -> None:
    jar = jar_in(repository)
    repository.cut_answers = 3

    with pytest.raises(MavenError, match=r"org\.example\.group:thing:1\.2 from http://127"):
        fetch_jars([jar], retry_delays_seconds=NO_WAIT)

    assert files_below(tmp_path / "cache") == []


def test_other_bytes_than_the_pinned_ones_are_never_kept(repository: HttpFiles, tmp_path: Path) -> None:
    jar = jar_in(repository)
    repository.files[jar.relative_path] = b"something else"

    with pytest.raises(MavenError, match="not the pinned"):
        fetch_jars([jar], retry_delays_seconds=NO_WAIT)

    assert files_below(tmp_path / "cache") == []


def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(repository: HttpFiles) -> None:
    jar = jar_in(repository)
    repository.refusals = [503]
    assert fetch_jars([jar], retry_delays_seconds=NO_WAIT)

    absent = Jar("org.example", "absent", "1", "0" * 64)
    with pytest.raises(MavenError, match=r"answered 404\. Check the network, or set OTTLA_MAVEN_BASE"):
        fetch_jars([absent], retry_delays_seconds=NO_WAIT)
    assert repository.requests.count("/org/example/absent/1/absent-1.jar") == 1


def test_a_cached_jar_that_was_damaged_is_fetched_again(repository: HttpFiles) -> None:
    jar = jar_in(repository)
    (path,) = fetch_jars([jar])
    path.write_bytes(CONTENT[:-1])

    (again,) = fetch_jars([jar])

    assert again.read_bytes() == CONTENT


def test_the_users_own_maven_repository_is_used_when_its_bytes_are_right(
    repository: HttpFiles, tmp_path: Path
) -> None:
    right, wrong = jar_in(repository, b"right", "right"), jar_in(repository, b"wrong", "wrong")
    for jar in (right, wrong):
        path = tmp_path / "home" / ".m2" / "repository" / jar.relative_path
        path.parent.mkdir(parents=True)
        path.write_bytes(b"right")

    paths = fetch_jars([right, wrong])

    assert ".m2" in str(paths[0])
    assert paths[1].read_bytes() == b"wrong"


def test_what_a_killed_download_left_is_removed_when_it_is_old(repository: HttpFiles, tmp_path: Path) -> None:
    jar = jar_in(repository)
    directory = (tmp_path / "cache" / "maven" / jar.relative_path).parent
    directory.mkdir(parents=True)
    old, young = directory / ".thing-1.2.jar.a.part", directory / ".thing-1.2.jar.b.part"
    old.touch()
    young.touch()
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))

    fetch_jars([jar])

    assert files_below(directory) == [young.name, "thing-1.2.jar"]


def test_a_cache_that_cannot_be_written_says_which_variable_to_set(
    repository: HttpFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jar = jar_in(repository)
    (tmp_path / "file").touch()
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "file"))

    with pytest.raises(MavenError, match="Set OTTLA_CACHE"):
        fetch_jars([jar])


def test_a_server_that_is_not_there_is_named(repository: HttpFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = jar_in(repository)
    monkeypatch.setenv("OTTLA_MAVEN_BASE", "http://127.0.0.1:1/maven")

    with pytest.raises(MavenError, match=r"from http://127\.0\.0\.1:1/maven/org/example"):
        fetch_jars([jar], retry_delays_seconds=NO_WAIT)


def test_an_error_in_the_progress_function_ends_the_fetch(repository: HttpFiles, tmp_path: Path) -> None:
    jar = jar_in(repository)

    def interrupted(progress: JarProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_jars([jar], interrupted)
    assert files_below(tmp_path / "cache") == []


@pytest.mark.parametrize(
    ("jar", "file_name"),
    [
        (Jar("g", "a", "1", "0" * 64), "a-1.jar"),
        (Jar("g", "a", "1", "0" * 64, extension="zip"), "a-1.zip"),
        (Jar("g", "a", "1", "0" * 64, classifier="test"), "a-1-test.jar"),
    ],
)
def test_file_names(jar: Jar, file_name: str) -> None:
    assert jar.file_name == file_name


@pytest.mark.parametrize("part", ["", "..", "a/b", "a b", "-a"])
def test_a_part_of_a_coordinate_cannot_lead_out_of_the_repository(part: str) -> None:
    with pytest.raises(ValueError, match="Maven coordinate"):
        Jar("group", part, "1", "0" * 64)
    with pytest.raises(ValueError, match="sha256"):
        Jar("group", "artifact", "1", "ABC")


def test_without_an_override_the_base_is_the_maven_packages_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_MAVEN_BASE", raising=False)
    assert base_address().startswith("https://")
