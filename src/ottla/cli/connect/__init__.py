"""`ottla connect WORD`: what asks a Connect cluster. Without a word of these it is a worker's own command."""
