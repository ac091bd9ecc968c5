"""`ottla connect` as a program with test plugins: `python worker_command.py connect|standalone …`.

PLUGINS of the module that OTTLA_TEST_PLUGINS names are there beside the installed ones, in hosts too.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ottla.cli.frame.running import run_command
from ottla.cli.servers import connect as commands
from ottla.connect import served_workers
from ottla.connect.plugins import catalog
from ottla.connect.plugins.catalog import Catalog, Engine
from ottla.connect.worker import building
from ottla.connect.worker.building import Surroundings

HOST = Path(__file__).with_name("scripted_host.py")


def host_command(engine: Engine) -> Sequence[str]:
    """The scripted host in place of the real one."""
    return [sys.executable, str(HOST), "--engine", engine]


def main() -> int:
    """Run the command of the words."""
    plugins = importlib.import_module(os.environ["OTTLA_TEST_PLUGINS"]).PLUGINS
    installed = catalog.installed_plugins().plugins
    names = {name for each in plugins for name in each.names}
    kept = [each for each in installed if not names.intersection(each.names)]
    real = served_workers.surroundings()

    def surroundings() -> Surroundings:
        if os.environ.get("OTTLA_TEST_HOST") == "real":
            return Surroundings(Catalog([*plugins, *kept]), real.offsets, building.host_command)
        return Surroundings(Catalog([*plugins, *kept]), real.offsets, host_command)

    served_workers.surroundings = surroundings
    word, *words = sys.argv[1:]
    command = commands.standalone if word == "standalone" else commands.connect
    return run_command(command, words, f"ottla {word}")


if __name__ == "__main__":
    sys.exit(main())
