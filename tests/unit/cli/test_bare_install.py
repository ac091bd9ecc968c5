"""Commands that a bare `pip install ottla` has, where no package of the extras can be imported."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

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
        (["rest"], 1, "pip install 'ottla[all]'"),
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
