"""The admission of texts that come in."""
