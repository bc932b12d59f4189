"""Telemetry of a server: figures, log lines and spans. It contains no secrets."""
