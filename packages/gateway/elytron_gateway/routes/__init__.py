"""The gateway's routes, with the readers of their credentials and forms. Starlette is imported here."""
