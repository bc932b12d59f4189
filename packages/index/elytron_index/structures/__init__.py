"""Arrays and maps of one space."""
