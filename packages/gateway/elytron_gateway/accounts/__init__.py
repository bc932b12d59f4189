"""Users, their keys, what they hold and may hold, and reports of their erasure."""
