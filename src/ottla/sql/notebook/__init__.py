"""`%load_ext ottla.sql.notebook`: the magics `%sql` and `%%sql` of IPython and Jupyter."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Add the magics and the completion of their statements: called by %load_ext."""
    from ottla.sql.notebook.magic import SqlMagic

    SqlMagic(ipython).register()


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """Take them away again: called by %unload_ext."""
    from ottla.sql.notebook.magic import unregister

    unregister(ipython)
