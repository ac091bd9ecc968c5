"""Errors that a user causes: one base class, told in one place by the command."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import sys
import types

import pytest

from ottla.broker.broker import StartError
from ottla.cli import main as command
from ottla.cli.frame.commands import command as frame_command
from ottla.cli.frame.entries import Entry
from ottla.config.errors import ConfigError, UsageError, UserError

#: Errors that are no user's: told to a caller inside, who turns them into one or answers a request with them.
INTERNAL = {
    "ApiError",  # an answer over HTTP
    "ArchiveError",  # the next start of Spark is not faster, and tries again
    "StateError",  # a checkpoint that is broken, inside a task
}
HOUSES = ("client", "config", "demo", "pipeline", "streams", "web")


def errors_of_the_houses() -> set[type[Exception]]:
    found: set[type[Exception]] = set()
    for house in HOUSES:
        package = importlib.import_module(f"ottla.{house}")
        for each in pkgutil.walk_packages(package.__path__, f"ottla.{house}."):
            module = importlib.import_module(each.name)
            found |= {
                value
                for value in vars(module).values()
                if isinstance(value, type)
                and issubclass(value, Exception)
                and value.__module__ == module.__name__
                and value.__name__.endswith("Error")
            }
    return found


def test_errors_of_the_houses_above_the_cluster_are_user_errors() -> None:
    strangers = {
        each.__name__
        for each in errors_of_the_houses()
        if not issubclass(each, UserError | ValueError) and each.__name__ not in INTERNAL
    }
    assert strangers == set()


def test_errors_of_a_broker_s_start_are_user_errors() -> None:
    assert issubclass(StartError, UserError)
    assert issubclass(ConfigError, UserError)


@pytest.mark.parametrize(("error", "code"), [(UserError("no", "trace\n"), 1), (UsageError("no"), 2)])
def test_a_user_error_is_told_by_the_command(
    error: UserError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = types.ModuleType("ottla_of_a_test")

    @frame_command("test")
    def failing() -> None:
        raise error

    vars(module)["failing"] = failing
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(command.COMMANDS, "test", Entry(f"{module.__name__}:failing", "a command"))
    assert command.main(["test"]) == code
    assert capsys.readouterr().err == f"{error.trace}ottla test: no\n"


def test_a_user_error_travels_between_processes_with_its_trace() -> None:
    copy = pickle.loads(pickle.dumps(UserError("no", "trace")))
    assert (str(copy), copy.trace) == ("no", "trace")
