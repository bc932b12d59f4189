"""The server's own description: OpenAPI, its schemas and examples, and pages."""
