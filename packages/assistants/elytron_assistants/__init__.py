"""Memory for coding assistants: which project a folder belongs to, and what is recalled and stored for it.

`repository` identifies the project of a folder, `registry` stores the user's decisions about projects, `tiers` reads
and writes project and personal memory, and `migration` splits a space that projects shared.
`elytron_assistants.sessions` reads the session files of assistants and imports them.
`elytron_assistants.wiring` has the table of assistants and writes their settings and plugins,
`elytron_assistants.hooks` answers their events.
"""
