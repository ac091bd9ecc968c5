"""One module a family of suites; each has `SUITES`, a tuple of Suite."""
