"""Auto, and its parts."""
