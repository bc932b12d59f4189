"""Memory for coding assistants: which space a folder has, and what their sessions and hooks give to it.

`elytron_assistants.repository` names the space of a folder.
"""
