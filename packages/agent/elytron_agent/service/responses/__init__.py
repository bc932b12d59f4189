"""Responses and conversations in the format of Open Responses, each answered by a turn of an agent."""
