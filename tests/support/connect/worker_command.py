"""`ottla connect` as a program with test plugins: `python worker_command.py connect|standalone …`.

PLUGINS of the module that OTTLA_TEST_PLUGINS names are there beside the installed ones. OTTLA_TEST_HOST says
what the hosts are: `scripted`, which run nothing, or `fake`, which run the plugins of fake_plugins.py.
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
from ottla.connect.worker.building import Surroundings

HOST = Path(__file__).with_name("scripted_host.py")


def host_command(engine: Engine) -> Sequence[str]:
    """A host in place of the real one."""
    is_fake = os.environ.get("OTTLA_TEST_HOST") == "fake"
    host = ["-m", "support.connect.host_main"] if is_fake else [str(HOST)]
    return [sys.executable, *host, "--engine", engine]


def main() -> int:
    """Run the command of the words."""
    plugins = importlib.import_module(os.environ["OTTLA_TEST_PLUGINS"]).PLUGINS
    installed = catalog.installed_plugins().plugins
    names = {name for each in plugins for name in each.names}
    kept = [each for each in installed if not names.intersection(each.names)]
    real = served_workers.surroundings()

    def surroundings() -> Surroundings:
        return Surroundings(Catalog([*plugins, *kept]), real.offsets, host_command)

    served_workers.surroundings = surroundings
    word, *words = sys.argv[1:]
    command = commands.standalone if word == "standalone" else commands.connect
    return run_command(command, words, f"ottla {word}")


if __name__ == "__main__":
    sys.exit(main())
