"""Commands on what is known."""
