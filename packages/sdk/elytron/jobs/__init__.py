"""Durable jobs: the queue, background tasks, and spending on models."""
