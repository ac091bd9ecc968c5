"""The metadata on this node: quorum, log, controller, and the way to the active one."""
