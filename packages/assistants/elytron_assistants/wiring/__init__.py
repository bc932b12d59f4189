"""The assistants that Elytron can be wired into: one table of them, and what is written from it."""
