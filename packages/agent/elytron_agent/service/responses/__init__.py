"""Responses and conversations in the shape of Open Responses, each answered by a turn of an agent."""
