"""What a server says of itself: OpenAPI, its schemas and examples, and pages."""
