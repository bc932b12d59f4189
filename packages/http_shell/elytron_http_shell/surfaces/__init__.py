"""The routes of a server, a module for each family."""
