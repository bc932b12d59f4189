"""Readers for what other memory systems store: sentences without a speaker, and notes."""

__all__: list[str] = []
