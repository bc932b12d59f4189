"""Rigs that hold the durable stores to their promises; see `docs/explanation/durability.md`."""
