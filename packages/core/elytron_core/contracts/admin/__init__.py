"""Requests and answers for operators."""
