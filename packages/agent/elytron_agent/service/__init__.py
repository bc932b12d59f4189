"""The agent as a service: a companion for each user of a server, its turns, events and schedules over HTTP."""
