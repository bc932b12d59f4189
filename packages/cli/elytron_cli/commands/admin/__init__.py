"""Commands for operators of a store."""
