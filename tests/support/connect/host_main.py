"""`python -m support.connect.host_main`: a host with fake_plugins.py and a few plugins of ours."""

from __future__ import annotations

import ottla.connect.plugins.catalog as catalog
from ottla.connect.host.__main__ import main

if __name__ == "__main__":
    catalog.BUILT_IN = (  # type: ignore[misc]
        "support.connect.fake_plugins",
        "ottla.connect.cdc.plugins",
        "ottla.connect.converters.plugins",
    )
    main()
