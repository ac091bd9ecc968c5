"""Options of commands that ask servers over REST, and the properties that they give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ottla.cli.frame.options import pairs_option
from ottla.config.sources import SET, from_file, from_words, layered, texts


def credential_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --command-config and --set, whose values `properties_of` reads."""
    function = pairs_option(
        SET, "set_words", "One setting of the client; may be repeated, wins over the file."
    )(function)
    return click.option(
        "--command-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A properties file with the client's credentials: basic.auth.user.info, bearer.auth.token, "
        "ssl.ca.location, ssl.certificate.location, ssl.key.location.",
    )(function)


def properties_of(command_config: Path | None, set_words: tuple[str, ...]) -> dict[str, str]:
    """The properties of the file, and of the words over them. Raises UserError."""
    file = {} if command_config is None else from_file(command_config)
    return texts(layered(file, from_words(set_words)))
