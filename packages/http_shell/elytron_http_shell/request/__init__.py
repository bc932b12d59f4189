"""Reading a request within its bounds: headers, credentials, bodies, forms."""
