"""The wheel and the source distribution: complete, and enough for a bare virtual environment."""

from __future__ import annotations

import configparser
import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import distribution, requires
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from conftest import Built

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
TIMEOUT_S = 300
#: What a user does with an installed ottla; run inside the environment.
STORY = """
import subprocess, sys
from pathlib import Path
import ottla
from ottla.testing import running_broker
assert Path(ottla.__file__).is_relative_to(sys.prefix), ottla.__file__
with running_broker() as broker:
    broker.create_topic("t")
    broker.produce("t", "a", key="k")
    broker.restart()
    assert [each.text for each in broker.consume("t")] == ["a"]
    status = [f"{sys.prefix}/bin/ottla", "quorum", "status", "--bootstrap", broker.bootstrap]
    subprocess.run(status, check=True, stdout=subprocess.DEVNULL)
print("done")
"""


def files_of_the_source() -> set[str]:
    """The paths of all files that belong into the wheel."""
    found = SOURCE.glob("ottla/**/*")
    return {
        str(path.relative_to(SOURCE))
        for path in found
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def normalized(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def base_distributions() -> list[str]:
    """What `pip install ottla` brings: its dependencies without extras, and theirs."""
    left = [normalized(each) for each in project()["dependencies"]]
    found: list[str] = []
    while left:
        name = left.pop()
        if name not in found:
            found.append(name)
            needed = map(Requirement, requires(name) or ())
            left += [
                normalized(each.name)
                for each in needed
                if each.marker is None or each.marker.evaluate({"extra": ""})
            ]
    return sorted(found)


def project() -> dict[str, list[str]]:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: dict[str, list[str]] = content["project"]
    return found


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        listed = wheel.namelist()
    names = {name for name in listed if ".dist-info/" not in name and ".data/" not in name}
    assert names == files_of_the_source()
    pages = {path.name for path in (ROOT / "docs" / "man").glob("*.1")}
    assert {Path(name).name for name in listed if ".data/data/share/man/man1/" in name} == pages
    assert {"ottla/py.typed", "ottla/pipeline/query/PlannedKafka.java"} <= names


def test_the_wheels_metadata_name_commands_plugin_extras_and_pythons(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        (info,) = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
        metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
        entries = configparser.ConfigParser()
        entries.read_string(wheel.read(f"{info}/entry_points.txt").decode())
    assert dict(entries["console_scripts"]) == {"ottla": "ottla.cli.main:main"}
    assert dict(entries["pytest11"]) == {"ottla.pytest": "ottla.pytest"}
    assert metadata["Requires-Python"] == ">=3.11"
    assert sorted(metadata.get_all("Provides-Extra", [])) == [
        "all",
        "connect",
        "pipeline",
        "services",
        "sql",
        "telemetry",
    ]
    base = {normalized(each) for each in metadata.get_all("Requires-Dist", []) if "extra ==" not in each}
    assert base == {normalized(each) for each in project()["dependencies"]}


def test_the_source_distribution_has_what_a_build_and_a_reader_need(built: Built) -> None:
    with tarfile.open(built.source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in files_of_the_source()} <= names
    assert {"pyproject.toml", "README.md", "docs/testing.md", "requirements.lock"} <= names
    assert {"packaging/oci/Dockerfile", "packaging/helm/ottla/Chart.yaml"} <= names
    # no tests, no caches, nothing of a machine
    assert not [name for name in names if name.startswith("tests/") or name.endswith(".pyc")]


def test_the_readme_tells_how_many_packages_a_bare_install_has() -> None:
    told = re.search(r"with\s(\d+) small packages", (ROOT / "README.md").read_text())
    assert told is not None
    assert int(told[1]) == len(base_distributions())


def test_a_bare_environment_runs_a_broker_and_its_commands(built: Built, tmp_path: Path) -> None:
    # given an environment with the wheel and the packages of a bare install, and no other
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    for name in base_distributions():
        for file in distribution(name).files or ():
            top = Path(file.parts[0])
            if top.name not in ("..", "__pycache__") and not (packages / top).exists():
                (packages / top).symlink_to(Path(str(file.locate())).parents[len(file.parts) - 1] / top)
    installing = ["install", "--quiet", "--no-index", "--no-deps", "--no-compile", str(built.wheel)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    installed = run(*pip, *installing, cwd=tmp_path)
    assert installed.returncode == 0, installed
    # then
    told = run(python, "-c", STORY, cwd=tmp_path)
    assert told.returncode == 0 and told.stdout == "done\n", told
    # and a command that needs more says so
    rest = run(python, "-m", "ottla", "rest", cwd=tmp_path)
    assert rest.returncode == 1
    assert "`ottla rest` needs the package " in rest.stderr
    assert "pip install 'ottla[services]'" in rest.stderr


@pytest.mark.parametrize("words", [(), ("-p", "ottla.pytest")])
def test_an_installed_wheel_brings_the_fixtures(built: Built, words: tuple[str, ...], tmp_path: Path) -> None:
    # given the wheel on the path, before the source tree that this environment has
    with zipfile.ZipFile(built.wheel) as wheel:
        wheel.extractall(tmp_path / "installed")
    (tmp_path / "test_it.py").write_text(
        "import ottla\n"
        "def test_it(kafka):\n"
        f"    assert ottla.__file__.startswith({str(tmp_path / 'installed')!r})\n"
        "    kafka.produce(kafka.topic(), 'a')\n"
    )
    # then
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir=.",
        *words,
        "test_it.py",
    ]
    told = subprocess.run(
        command,
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert told.returncode == 0, told.stdout
    assert "1 passed" in told.stdout


def run(*words: Path | str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program without this environment's paths."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment,
    )


# -- other versions of Python -------------------------------------------------------------------------------

VERSIONS = ("3.11", "3.12", "3.13")


def interpreter(version: str) -> str:
    """A Python of this version that runs: on the path, or one of pyenv's."""
    kept = Path.home() / ".pyenv" / "versions"
    for candidate in (f"python{version}", *map(str, kept.glob(f"{version}.*/bin/python"))):
        try:
            found = subprocess.run([candidate, "-V"], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if found.returncode == 0 and found.stdout.startswith(f"Python {version}."):
            return candidate
    pytest.skip(f"there is no Python {version} here")


def constraints(directory: Path) -> Path:
    """The versions of the lock, without hashes: pip takes none of a local wheel's beside them."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    path = directory / "constraints.txt"
    path.write_text("".join(f"{line.split()[0]}\n" for line in lines if line and line[0] not in " #"))
    return path


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_the_locked_packages_install_from_scratch(built: Built, version: str, tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([interpreter(version), "-m", "venv", str(tmp_path / "env")], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    locked = ["--only-binary", ":all:", "--constraint", str(constraints(tmp_path))]
    # a bare install runs a broker
    assert run(*pip, *locked, built.wheel, cwd=tmp_path).returncode == 0
    told = run(python, "-c", STORY, cwd=tmp_path)
    assert told.returncode == 0 and told.stdout == "done\n", told
    # the services come with their extra
    subprocess.run(
        [*pip, *locked, f"ottla[services] @ {built.wheel.as_uri()}"], check=True, timeout=TIMEOUT_S
    )
    up = "from ottla.testing import *\nwith running_broker() as b, running_registry(b.bootstrap): print('up')"
    told = run(python, "-c", up, cwd=tmp_path)
    assert told.stdout == "up\n", told
