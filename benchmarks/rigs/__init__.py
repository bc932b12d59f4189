"""Rigs that test the promises of the durable stores; see `docs/explanation/durability.md`."""
