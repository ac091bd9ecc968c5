"""Find the application in a user's file or module, as `ottla streams` names it.

`orders.py`, `orders.py:app`, `shop.orders` or `shop.orders:app`. A file is run as a module, not as
`__main__`: the code under `if __name__ == "__main__"` is not run. Its directory (for a module, the
current one) is where it may import from, here and in Spark's Python workers.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from ottla.config.errors import UserError
from ottla.streams.dsl import Streams, find_app
from ottla.streams.plan.node import TopologyError


class AppError(UserError):
    """There is no application to be had; one line, and the traceback of the user's code where that failed."""


def load_app(given: str, name: str | None = None) -> Streams:
    """The application that `given` means; `name` is its variable where there are several. Raises AppError."""
    place, behind = _split(given)
    name = name or behind
    module = _from_file(Path(place)) if place.endswith(".py") else _from_module(place)
    if name is not None:
        found = getattr(module, name, None)
        if not isinstance(found, Streams):
            state = "is not there" if found is None else f"is a {type(found).__name__}"
            raise AppError(f"{given}: {name} {state}, an object of Streams is needed")
        return found
    try:
        return find_app(vars(module).values())
    except TopologyError as error:
        raise AppError(f"{given}: {error}; --name says which") from None


def ship_with_functions(app_module: str) -> None:
    """Have functions of the application's file travel to Spark's workers whole, not by the file's name."""
    from pyspark import cloudpickle

    if app_module in sys.modules and app_module.startswith(_PREFIX):
        cloudpickle.register_pickle_by_value(sys.modules[app_module])  # type: ignore[no-untyped-call]


def module_of(given: str) -> str:
    """The name under which `load_app` keeps the module."""
    place, _ = _split(given)
    return _PREFIX + Path(place).stem if place.endswith(".py") else place


_PREFIX = "ottla_app_"


def _split(given: str) -> tuple[str, str | None]:
    place, separator, name = given.rpartition(":")
    if separator and name.isidentifier() and place:
        return place, name
    return given, None


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise AppError(f"there is no file {path}")
    _search_in(path.parent.absolute())
    name = module_of(str(path))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there
    with _told(str(path), path), _not_run_meanwhile():
        spec.loader.exec_module(module)
    return module


def _from_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise AppError(f"{name} is neither a Python file nor a module's name")
    _search_in(Path.cwd())
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise AppError(f"there is no module {name} here or where Python looks for modules")
    with _told(name, Path(found.origin) if found.origin else None), _not_run_meanwhile():
        return importlib.import_module(name)


def _search_in(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    given = os.environ.get("PYTHONPATH", "")
    if str(directory) not in given.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(directory), given)))


@contextlib.contextmanager
def _told(module: str, path: Path | None) -> Iterator[None]:
    """An error of the user's code: its place in a line where its meaning is known, else its traceback."""
    try:
        yield
    except AppError:
        raise
    except TopologyError as error:
        raise AppError(f"{_place(error, module, path)}: {error}") from error
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = error.__traceback__
        while (
            frames is not None and path is not None and not _is_in(frames.tb_frame.f_code.co_filename, path)
        ):
            frames = frames.tb_next
        trace = "".join(traceback.format_exception(type(error), error, frames))
        raise AppError(f"{module} can't be loaded", trace) from error


def _place(error: BaseException, module: str, path: Path | None) -> str:
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if path is not None and _is_in(frame.filename, path)
    ]
    return f"{module}, line {lines[-1]}" if lines else module


def _is_in(filename: str, path: Path) -> bool:
    return Path(filename).absolute() == path.absolute()


@contextlib.contextmanager
def _not_run_meanwhile() -> Iterator[None]:
    """A file that runs its application when it is loaded would run it twice, or for ever."""
    before = Streams.start

    def refuse(app: Streams, settings: object = None) -> None:
        raise TopologyError(
            f'{app.name} is run while it is loaded: put run() under if __name__ == "__main__"'
        )

    Streams.start = refuse  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Streams.start = before  # type: ignore[method-assign]
