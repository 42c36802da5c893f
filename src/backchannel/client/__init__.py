"""Clients: they call a server, and answer what it asks."""
