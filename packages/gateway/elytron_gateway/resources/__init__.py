"""Files and documents of users: where they come from, and their text in chunks."""
