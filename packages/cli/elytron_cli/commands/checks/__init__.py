"""Commands that inspect and verify a store."""
