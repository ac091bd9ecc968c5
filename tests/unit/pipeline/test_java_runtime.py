"""Which Java is taken, from what the machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipeline.spark.java_runtime import JavaError, bundled_java, find_java

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins for java are shell scripts")

ALL_MODULES = "java.base java.sql jdk.incubator.vector"


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java but the bundled one, and a cache of the test's own."""
    monkeypatch.delenv("OTTLA_JAVA", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))


def java_home(path: Path, version: str, modules: str = ALL_MODULES) -> Path:
    """A directory that looks like a Java of that version."""
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (path / "bin" / "java").chmod(0o755)
    (path / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return path


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "seventeen", "17.0.15")))
    monkeypatch.setenv("PATH", str(java_home(tmp_path / "twentyone", "21.0.2") / "bin"))

    java = find_java()

    assert (java.version, java.source, java.home) == (17, "JAVA_HOME", tmp_path / "seventeen")


def test_a_java_that_spark_does_not_run_on_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "eight", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(java_home(tmp_path / "twentyone", "21") / "bin"))

    java = find_java()

    assert (java.version, java.source) == (21, "PATH")


def test_a_link_on_the_path_is_followed_to_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = java_home(tmp_path / "jvm", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")

    assert find_java().home == home


def test_a_java_without_a_release_file_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "quiet"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(
        "#!/bin/sh\n"
        '[ "$1" = --list-modules ] && echo jdk.incubator.vector@21 && exit 0\n'
        f'echo "    java.home = {home}" >&2; echo "    java.specification.version = 21" >&2\n'
    )
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))

    java = find_java()

    assert (java.version, java.home) == (21, home)


def test_without_a_java_the_bundled_one_runs(tmp_path: Path) -> None:
    java = find_java()

    assert (java.version, java.source) == (21, "bundled")
    said = subprocess.run([java.executable, "-version"], capture_output=True, text=True, timeout=60)
    assert "21." in said.stderr


def test_the_switch_forces_the_bundled_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "seventeen", "17")))
    monkeypatch.setenv("OTTLA_JAVA", "bundled")

    assert find_java().source == "bundled"


def test_the_wrapper_leaves_out_one_argument_and_keeps_the_others_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = java_home(tmp_path / "a runtime", "21", modules="java.base")
    (home / "bin" / "java").write_text('#!/bin/sh\nfor a do echo "<$a>"; done\nexit 7\n')
    monkeypatch.setenv("JAVA_HOME", str(home))

    java = find_java()
    command = [java.home / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "", "$HOME"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": os.defpath})

    assert java.executable == home / "bin" / "java"
    assert java.home != home
    assert done.stdout.splitlines() == ["<-cp>", "<a b>", "<>", "<$HOME>"]
    assert done.returncode == 7


def test_the_bundled_java_starts_with_sparks_argument() -> None:
    command = [bundled_java().home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(command, capture_output=True, timeout=60, env={"PATH": os.defpath}).returncode == 0


@pytest.mark.parametrize(("version", "message"), [("11.0.2", "is Java 11"), (None, "has no bin/java")])
def test_a_java_asked_for_that_will_not_do_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None, message: str
) -> None:
    home = java_home(tmp_path / "wanted", version) if version else tmp_path / "nothing"
    monkeypatch.setenv("OTTLA_JAVA", str(home))

    with pytest.raises(JavaError, match=message):
        find_java()
