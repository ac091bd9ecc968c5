"""Which cluster a command asks, by its options, the environment and the user's profiles.

The first of three places that names a cluster gives it, whole:

1. the command line: --bootstrap, --profile, or bootstrap.servers in --set or --command-config;
2. the environment: OTTLA_BOOTSTRAP, OTTLA_PROFILE;
3. the current profile, `ottla profile use`;

else it is 127.0.0.1:9092. In one place servers and a profile may both be named: the profile's settings are
for those servers then. A profile of a lower place is left alone, so that no password is sent to a server that
it is not for. --set wins over --command-config, and both over a profile's settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ottla.client.access import DEFAULT_BOOTSTRAP, ClusterAccess
from ottla.config.sources import Given, from_file, from_words, layered, texts

BOOTSTRAP_VARIABLE: Final = "OTTLA_BOOTSTRAP"
PROFILE_VARIABLE: Final = "OTTLA_PROFILE"
BOOTSTRAP_SERVERS: Final = "bootstrap.servers"


def access_of(asked: Mapping[str, Any]) -> ClusterAccess:
    """How to reach the cluster that options and environment name. Raises UserError."""
    from ottla.cli.frame.profiles import Profiles

    file: Path | None = asked.get("command_config")
    own = layered({} if file is None else from_file(file), from_words(asked.get("set_words") or ()))
    bootstrap, profile = _first_place(asked, own)
    given = texts(layered({} if profile is None else Profiles().read(profile), own))
    servers = given.pop(BOOTSTRAP_SERVERS, DEFAULT_BOOTSTRAP)
    access = ClusterAccess(bootstrap or servers, given)
    access.require_common_properties()
    return access


def _first_place(asked: Mapping[str, Any], own: Mapping[str, Given]) -> tuple[str | None, str | None]:
    """The servers and the profile of the first place that names a cluster."""
    from ottla.cli.frame.profiles import Profiles

    bootstrap, profile = asked.get("bootstrap") or None, asked.get("profile") or None
    if bootstrap or profile or BOOTSTRAP_SERVERS in own:
        return bootstrap, profile
    bootstrap, profile = os.environ.get(BOOTSTRAP_VARIABLE), os.environ.get(PROFILE_VARIABLE)
    if bootstrap or profile:
        return bootstrap or None, profile or None
    return None, Profiles().current()
