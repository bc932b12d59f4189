"""Text from untrusted files, read in a child process; its start is fast because nothing is imported here."""
