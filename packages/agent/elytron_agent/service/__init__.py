"""The agent as a service: a companion for each user of a server, with turns, events and schedules over HTTP."""
