"""Push: what an agent said reaches a device that has no stream open, as an encrypted preview."""
