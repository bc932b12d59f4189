"""Text extraction from untrusted files in a child process. Nothing is imported here, so it starts quickly."""
