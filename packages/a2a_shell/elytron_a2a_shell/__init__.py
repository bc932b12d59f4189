"""Memory for other agents, over the A2A protocol. Imports nothing heavy before it is used."""

from elytron_a2a_shell.app import A2aApp, a2a_app
from elytron_a2a_shell.peers import MessageName, PeerAnswer, PeerMessage

__all__ = ["A2aApp", "MessageName", "PeerAnswer", "PeerMessage", "a2a_app"]
