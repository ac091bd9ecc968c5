"""Commands that a bare `pip install ottla` has, where no package of the extras can be imported."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from ottla.cli.frame.errors import exit_code_of
from ottla.cli.frame.extras import PIPELINE, SERVICES, SQL, TELEMETRY

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
PROGRAM = """
import sys
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refusing())
from ottla.cli.main import main
sys.exit(main({words!r}))
"""


def distribution(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def bare() -> set[str]:
    """The distributions of a bare install: ottla's own dependencies, and theirs."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    left = [distribution(each) for each in project["dependencies"]]
    found: set[str] = set()
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [distribution(each) for each in requires(name) or () if "extra ==" not in each]
    return found


def missing_packages() -> set[str]:
    """The packages of this environment that a bare install lacks."""
    kept = bare() | {"ottla"}
    return {
        package
        for package, distributions in packages_distributions().items()
        if not {distribution(each) for each in distributions} & kept
    }


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (
            ["quorum", "status", "--bootstrap", "127.0.0.1:1"],
            1,
            "The broker at 127.0.0.1:1 cannot be reached",
        ),
        (
            ["partition", "list", "--bootstrap", "127.0.0.1:1"],
            1,
            "The broker at 127.0.0.1:1 cannot be reached",
        ),
        (["broker", "--set", "num.partitions"], 2, "--set num.partitions: write it as key=value"),
        (["rest"], 1, "pip install 'ottla[services]'"),
        (["registry"], 1, "pip install 'ottla[services]'"),
        (["up"], 1, "pip install 'ottla[services]'"),
        (["streams", "run", "x.py", "--state", "s"], 1, "pip install 'ottla[pipeline]'"),
        (["demo"], 1, "pip install 'ottla[pipeline]'"),
    ],
)
def test_a_bare_install_has_the_commands_of_a_cluster(words: list[str], code: int, line: str) -> None:
    missing = missing_packages()
    assert {"confluent_kafka", "starlette", "uvicorn", "pyspark"} <= missing
    assert "aiokafka" in missing
    assert not missing & {"uvloop", "crc32c", "cramjam"}
    program = PROGRAM.format(missing=missing, words=words)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == code, run
    (said,) = run.stderr.splitlines()
    assert line in said


EXTRAS = {"services": SERVICES, "pipeline": PIPELINE, "sql": SQL, "telemetry": TELEMETRY}


def extras() -> dict[str, set[str]]:
    """The distributions of each extra."""
    declared = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    return {extra: {distribution(each) for each in declared[extra]} for extra in EXTRAS}


def test_the_extras_that_errors_name_have_the_package() -> None:
    by_package = packages_distributions()
    for extra, packages in EXTRAS.items():
        for package in packages:
            assert {distribution(each) for each in by_package[package]} & extras()[extra], package


def test_every_package_of_an_extra_is_known() -> None:
    known = {
        distribution(each)
        for packages in EXTRAS.values()
        for package in packages
        for each in packages_distributions()[package]
    }
    assert set().union(*extras().values()) - {"ottla"} <= known  # an extra may have the others


@pytest.mark.parametrize(("missing", "told"), [("fastavro._read", True), ("of_the_users_own", False)])
def test_a_package_that_is_missed_later_is_told_if_an_extra_has_it(
    missing: str, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> int:
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    if not told:
        with pytest.raises(ModuleNotFoundError):
            exit_code_of(lambda: "ottla consume", run)
        return
    assert exit_code_of(lambda: "ottla consume", run) == 1
    line = f"ottla consume: `ottla consume` needs the package {missing}: pip install 'ottla[services]'\n"
    assert capsys.readouterr().err == line
