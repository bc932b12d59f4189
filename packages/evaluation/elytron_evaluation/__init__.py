"""Evaluation: rates of turn hooks with their bars, and demonstrations of recall and of the proxy."""
