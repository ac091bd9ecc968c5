"""Write what a batch gives: exactly once, keyed and repeatable, or as dead letters."""
