"""`ottla sql`: the server, and the terminal with its words."""
