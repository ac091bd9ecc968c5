"""`python -m support.connect.host_main`: a host that knows the plugins of fake_plugins.py, and no others."""

from __future__ import annotations

import ottla.connect.plugins.catalog as catalog
from ottla.connect.host.__main__ import main

if __name__ == "__main__":
    catalog.BUILT_IN = ("support.connect.fake_plugins",)  # type: ignore[misc, assignment]
    main()
