"""Connection, schema and rows of one SQLite database."""
