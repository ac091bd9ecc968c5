"""A terminal that a test types in and looks at: a tmux server of its own with one window."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 0.05


class Terminal:
    """One window of a tmux server."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def tmux(self, *words: str) -> str:
        """Run a command of tmux; its output."""
        command = ["tmux", "-S", str(self._socket), "-f", os.devnull, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

    def type(self, text: str) -> None:
        """Type characters."""
        if text.endswith(";"):  # would end tmux's command
            text = text[:-1] + "\\;"
        self.tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names: Enter, Tab, C-c."""
        self.tmux("send-keys", *keys)

    def screen(self) -> list[str]:
        """The lines on the screen, without empty ones at its end."""
        return self.tmux("capture-pane", "-p").rstrip("\n").splitlines()

    def wait_for(self, text: str) -> list[str]:
        """The screen as soon as one of its lines has the text."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            screen = self.screen()
            if any(text in line for line in screen):
                return screen
            if time.monotonic() > deadline:
                raise AssertionError(f"the screen does not show {text!r}:\n" + "\n".join(screen))
            time.sleep(POLL_SECONDS)


@contextmanager
def terminal(
    directory: Path,
    shell: str,
    columns: int = 80,
    lines: int = 40,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """A terminal in which a shell runs, with the command `ottla` on its PATH and no file of the user's."""
    binaries = directory / "bin"
    binaries.mkdir(parents=True, exist_ok=True)
    script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ottla "$@"\n'
    (binaries / "ottla").write_text(script)
    (binaries / "ottla").chmod(0o755)
    environment = {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(directory),
        "XDG_CONFIG_HOME": str(directory / "config"),
        "ZDOTDIR": str(directory),
        "LANG": "C.UTF-8",
        **(variables or {}),
    }
    found = Terminal(directory / "tmux")
    # Given to the shell itself: a tmux server may drop variables of `-e`.
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    found.tmux("new-session", "-d", "-x", str(columns), "-y", str(lines), f"exec env {settings} {shell}")
    try:
        yield found
    finally:
        subprocess.run(
            ["tmux", "-S", str(directory / "tmux"), "kill-server"],
            capture_output=True,
            check=False,
            timeout=30,
        )
