"""The assistants that Elytron integrates with: a table of them, and the files written from it."""
