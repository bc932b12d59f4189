"""What a platform offers: its profile, its capabilities, and the actions that a mode admits."""
