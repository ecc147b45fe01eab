"""A run: what is checked, what it takes, the compiled loop and the host's record of it."""
