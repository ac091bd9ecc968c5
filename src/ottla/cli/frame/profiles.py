"""Profiles: clusters that a user has named, each a properties file for Kafka's clients.

`$XDG_CONFIG_HOME/ottla/profiles/NAME.properties` (`~/.config` if the variable is not set) can be given to
`--command-config` of Kafka's own tools too. The file `current` beside the folder has the name of the profile
that counts where none is given. Files may hold passwords: they are written as a whole, and only their owner
can read them.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.config.errors import ConfigError, UsageError, UserError
from ottla.config.java_properties import properties_text
from ottla.config.sources import Given, from_file

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
SUFFIX: Final = ".properties"
MAX_PROFILES: Final = 1_000


class Profiles:
    """The profiles in a directory, `config_home()` if none is given."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = config_home() if directory is None else directory

    @property
    def _folder(self) -> Path:
        return self.directory / "profiles"

    @property
    def _current(self) -> Path:
        return self.directory / "current-profile"

    def names(self) -> list[str]:
        """The names of all profiles, sorted. Raises ConfigError."""
        try:
            files = [each.name for each in self._folder.iterdir() if is_profile(each)]
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise _unreadable(problem) from None
        return sorted(name.removesuffix(SUFFIX) for name in files)[:MAX_PROFILES]

    def path(self, name: str) -> Path:
        """The file of a profile, which may not exist. Raises UsageError for a name that can't be."""
        if NAME.fullmatch(name) is None:
            raise UsageError(
                f"a profile can't be called {name!r}: its name is 1 to 64 letters, digits, `_`, `-` and `.`"
            )
        return self._folder / f"{name}{SUFFIX}"

    def read(self, name: str) -> dict[str, Given]:
        """A profile's properties, with their places. Raises UserError if there is none of this name."""
        path = self.path(name)
        if not path.is_file():
            from ottla.cli.frame.errors import did_you_mean

            names = self.names()
            raise UserError(
                f"there is no profile {name}"
                + (did_you_mean(name, names) or (f"; there are {', '.join(names)}" if names else ""))
                + ("" if names else ": `ottla profile add` makes one")
            )
        return from_file(path)

    def write(self, name: str, properties: Mapping[str, str]) -> None:
        """Write a profile as a whole: a reader sees the old file or the new one. Raises UserError."""
        text = f"# ottla profile {name}: settings of Kafka clients\n{properties_text(properties)}"
        self._write(self.path(name), text)

    def remove(self, name: str) -> None:
        """Remove a profile; if it is the current one, none is current afterwards. Raises UserError."""
        self.read(name)
        # A pointer to a profile that is gone would be an error of every later command: it goes first.
        if self.current() == name:
            self.use(None)
        try:
            self.path(name).unlink(missing_ok=True)
        except OSError as problem:
            raise _unwritable(problem) from None

    def current(self) -> str | None:
        """The name of the current profile; None if there is none. Raises ConfigError."""
        try:
            name = self._current.read_text(encoding="utf-8")[:1_000].strip()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise ConfigError(f"{self._current}: it is not a text in UTF-8") from None
        except OSError as problem:
            raise _unreadable(problem) from None
        return name or None

    def use(self, name: str | None) -> None:
        """Make a profile the current one; None leaves none current. Raises UserError."""
        if name is not None:
            self.read(name)
            self._write(self._current, f"{name}\n")
            return
        try:
            self._current.unlink(missing_ok=True)
        except OSError as problem:
            raise _unwritable(problem) from None

    def _write(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # mkstemp's file can be read by its owner alone, from its first byte on.
            descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError as problem:
            raise _unwritable(problem) from None


def config_home() -> Path:
    """The directory of this user's files of ottla; a relative XDG_CONFIG_HOME does not count, as XDG says."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~")) / ".config"
    return base / "ottla"


def is_profile(path: Path) -> bool:
    """Whether the file is one of a profile."""
    return path.suffix == SUFFIX and NAME.fullmatch(path.name.removesuffix(SUFFIX)) is not None


def _unreadable(problem: OSError) -> ConfigError:
    return ConfigError(f"{problem.filename}: can't read it: {problem.strerror or problem}")


def _unwritable(problem: OSError) -> ConfigError:
    return ConfigError(f"{problem.filename}: can't write it: {problem.strerror or problem}")
