"""The gateway's routes on a server, with the readers of its credentials and forms. Starlette is imported here."""
