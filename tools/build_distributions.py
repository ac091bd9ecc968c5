"""Builds the source distribution, and from it the wheel: `python tools/build_distributions.py [DIRECTORY]`.

The wheel is made from what the source distribution holds, in a directory of its own: a file that is missing
there is missing in both, and no leftover of an earlier build gets in. Needs setuptools alone; no network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What a source distribution is made of; MANIFEST.in chooses among it.
PARTS = (
    *(
        "pyproject.toml",
        "MANIFEST.in",
        "README.md",
        "ARCHITECTURE.md",
        "src",
        "docs",
        "examples",
        "packaging",
    ),
    *("requirements.lock", "requirements-build.lock", "requirements-dev.lock"),
)
IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist")
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def build(directory: Path) -> tuple[Path, Path]:
    """Build both into `directory`; the paths of source distribution and wheel."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ottla-build-") as temporary:
        tree = Path(temporary) / "tree"
        tree.mkdir()
        for part in PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, tree / part, ignore=IGNORED)
            elif source.exists():
                shutil.copy2(source, tree / part)
        made = _build("build_sdist", tree, Path(temporary) / "made")
        unpacked = Path(temporary) / "unpacked"
        with tarfile.open(made) as archive:
            archive.extractall(unpacked, filter="data")
        (inner,) = unpacked.iterdir()
        wheel = _build("build_wheel", inner, Path(temporary) / "made")
        return Path(shutil.copy2(made, directory)), Path(shutil.copy2(wheel, directory))


def _build(hook: str, tree: Path, directory: Path) -> Path:
    """Call a hook of the build system, as pip does."""
    directory.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, "-c", BUILD, hook, str(directory)],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if run.returncode != 0:
        raise SystemExit(f"{hook} failed:\n{run.stdout}{run.stderr}")
    return directory / run.stdout.splitlines()[-1]


if __name__ == "__main__":
    for path in build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"):
        print(path)
