"""Comparison of steps' reports: expectations, references and differences."""
