"""Evaluation of turn hooks and recall, and demonstrations of recall and the proxy."""
