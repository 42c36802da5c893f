"""Serving HTTP: one ASGI app for both eras on one endpoint."""
