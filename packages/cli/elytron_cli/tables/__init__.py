"""Human-readable reports, one module per family."""
