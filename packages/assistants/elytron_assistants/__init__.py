"""Memory for coding assistants: map a folder to its project, and recall and store what belongs to it.

`project_identity` identifies a folder's project, `project_registry` stores the user's decisions about projects, `tiers`
reads and writes project and personal memory, and `space_split` splits a space that several projects shared.
`elytron_assistants.sessions` reads and imports assistants' session files, `elytron_assistants.wiring` lists the
assistants and edits their settings and plugins, and `elytron_assistants.hooks` handles their hook events.
"""
