"""What lies behind the gateway: the port, an EverOS server, and what an upstream that is down was not told yet."""
