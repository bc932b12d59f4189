"""Planes that operators read: access, audit, jobs, the gateway's accounts."""
