"""The image's recipe: what it copies is there, and its stages give a broker that runs, is probed, and stops.

No builder of images runs here: the long test carries out the instructions in directories of this machine in
place of the image's, as the user who runs the tests. Users, layers and ports of an image are not tried.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.testing import Kafka, RunningBroker, running_broker
from support.servers.cluster import free_port

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "packaging" / "oci" / "Dockerfile"
HEALTH_CHECK = ROOT / "packaging" / "oci" / "healthcheck.py"
TIMEOUT_S = 300


class Instruction(NamedTuple):
    """One instruction, continued lines joined."""

    word: str
    rest: str


def instructions() -> Iterator[Instruction]:
    lines = [line for line in RECIPE.read_text().splitlines() if line and not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        yield Instruction(word, rest.strip())


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, from its FROM on; ARGs before the first are the first of all."""
    found: list[list[Instruction]] = [[]]
    for each in instructions():
        if each.word == "FROM":
            found.append([])
        found[-1].append(each)
    return found


def test_the_recipe_needs_a_python_base_image_alone_and_runs_without_root() -> None:
    arguments, build, final = stages()
    assert [each.rest for each in arguments] == ["PYTHON=3.13-slim"]
    assert [stage[0].rest for stage in (build, final)] == ["python:${PYTHON} AS build", "python:${PYTHON}"]
    of_final = {each.word: each.rest for each in final}
    assert of_final["USER"] == "10001:10001"
    assert json.loads(of_final["ENTRYPOINT"]) == ["ottla"]  # process 1, which SIGTERM reaches
    assert of_final["STOPSIGNAL"] == "SIGTERM"
    assert "curl" not in RECIPE.read_text() and "apt" not in RECIPE.read_text()
    last = [each.word for each in final]
    assert last.index("USER") > max(number for number, word in enumerate(last) if word == "RUN")


def test_what_the_recipe_copies_is_there_and_is_sent_to_the_builder() -> None:
    sent = (RECIPE.with_name("Dockerfile.dockerignore")).read_text().splitlines()
    assert sent[1] == "*"
    for each in instructions():
        if each.word == "COPY" and not each.rest.startswith("--from"):
            for source in each.rest.split()[:-1]:
                assert (ROOT / source).exists()
                assert f"!{source.removeprefix('./')}" in sent


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker() as running:
        yield running


def health(address: str, seconds: str = "2") -> subprocess.CompletedProcess[str]:
    # -S: nothing of site-packages, and none of ottla's paths
    words = [sys.executable, "-I", "-S", str(HEALTH_CHECK), address, seconds]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_the_health_check_tells_whether_a_broker_answers(broker: RunningBroker) -> None:
    assert health(broker.bootstrap).returncode == 0
    with broker.unreachable():
        told = health(broker.bootstrap)
        assert told.returncode == 1 and "refused" in told.stdout and "Traceback" not in told.stderr
    with broker.paused():
        assert health(broker.bootstrap, "0.2").returncode == 1
    assert health(broker.bootstrap).returncode == 0


@pytest.mark.parametrize("address", ["127.0.0.1:x", "nowhere.invalid:1", "127.0.0.1:99999"])
def test_an_address_that_cannot_be_is_told_in_a_line(address: str) -> None:
    told = health(address)
    assert told.returncode == 1 and told.stderr == ""
    assert told.stdout.startswith(f"{address} does not answer: ")


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not here")
def test_hadolint_has_nothing_to_say() -> None:
    subprocess.run(["hadolint", str(RECIPE)], check=True)


# -- the stages, carried out --------------------------------------------------------------------------------


class Stage:
    """A directory that stands for an image's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        # `python` of the base image
        (root / "usr/bin").mkdir(parents=True)
        (root / "usr/bin/python").symlink_to(Path(sys.executable).resolve())
        self.environment["PATH"] = f"{root / 'usr/bin'}:{self.environment['PATH']}"

    def here(self, text: str) -> str:
        """The text with this stage's directories for the image's."""
        return re.sub(r"(?<![\w./$-])/(src|build|wheels|opt|var)\b", rf"{self.root}/\1", text)

    def carry_out(self, each: Instruction, other: Stage | None) -> None:
        """Do what an instruction says, but for users and metadata."""
        match each.word:
            case "ARG":
                name, _, value = each.rest.partition("=")
                self.environment[name] = value.strip('"')
            case "WORKDIR":
                self.work = Path(self.here(each.rest))
                self.work.mkdir(parents=True, exist_ok=True)
            case "ENV":
                for pair in each.rest.split():
                    name, _, value = pair.partition("=")
                    value = self.here(value).replace("$PATH", self.environment["PATH"])
                    self.environment[name] = value
            case "COPY" if each.rest.startswith("--from"):
                assert other is not None
                _, source, target = each.rest.split()
                # In an image the path is the same in both stages; the scripts of an environment have it.
                Path(self.here(target)).parent.mkdir(parents=True, exist_ok=True)
                Path(self.here(target)).symlink_to(other.here(source))
            case "COPY":
                *sources, target = each.rest.split()
                place = self.work / self.here(target)
                for source in sources:
                    if (ROOT / source).is_dir():
                        shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("*.egg-info"))
                    else:
                        place.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(ROOT / source, place)
            case "RUN" if "useradd" not in each.rest:
                self.run(["sh", "-c", self.here(each.rest)])
            case _:
                pass

    def run(self, words: list[str]) -> None:
        done = subprocess.run(
            words,
            cwd=self.work,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)


@pytest.mark.long
def test_the_stages_give_a_broker_that_is_probed_and_stops(tmp_path: Path) -> None:
    # when the stages are carried out
    _, build, final = stages()
    first, second = Stage(tmp_path / "build"), Stage(tmp_path / "final")
    for each in build:
        first.carry_out(each, None)
    for each in final:
        second.carry_out(each, first)
    # then the image's command is a broker
    of_final = {each.word: each.rest for each in final}
    port = free_port()
    data = second.root / "var/lib/ottla"
    data.mkdir(parents=True, exist_ok=True)
    words = [*json.loads(of_final["ENTRYPOINT"]), *json.loads(of_final["CMD"])]
    local = [second.here(word).replace("0.0.0.0", "127.0.0.1") for word in words]
    command = [word.replace("9092", str(port)) for word in local]
    running = subprocess.Popen(command, cwd=data, env=second.environment, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None and "ottla broker ready" in running.stdout.readline()
    # that its health check finds
    check = json.loads(of_final["HEALTHCHECK"].partition("CMD ")[2])
    probe = [second.here(word).replace("9092", str(port)) for word in check]
    second.run(probe)
    kafka = Kafka(f"127.0.0.1:{port}")
    kafka.create_topic("t")
    kafka.produce("t", "a")
    # and that ends by the stop signal
    running.send_signal(getattr(signal, of_final["STOPSIGNAL"]))
    assert running.wait(60) == 0
    running.stdout.close()
    assert (data / "t-0").is_dir()
