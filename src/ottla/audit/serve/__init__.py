"""`ottla audit serve`: answers over HTTP, a page, and alerts."""
