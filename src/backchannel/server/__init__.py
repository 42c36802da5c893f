"""Servers: they serve tools, resources and prompts, and ask the client from the middle of a handler."""
