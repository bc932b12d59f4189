"""Rigs that hold the durable stores to their promises; see `docs/durability.md`."""
