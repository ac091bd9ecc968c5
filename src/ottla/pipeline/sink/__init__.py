"""Write a batch's output: exactly once, repeatably by key, or as dead letters."""
