"""Memory for coding assistants: which project a folder belongs to, and what is read and stored for it.

`repository` names the project of a folder, `registry` holds what the user decided about projects, `tiers` reads and
writes the memory of a project and of its person, and `migration` splits a space that projects shared.
`elytron_assistants.sessions` reads what assistants left on disk, and imports it.
`elytron_assistants.hosts` has the table of assistants, and what is written into their settings and plugins from it.
"""
