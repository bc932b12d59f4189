"""Routes of the console, grouped by subject."""
