"""Documents that servers store: those of the system space, and those of the gateway."""
