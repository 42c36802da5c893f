"""A server as an OAuth resource server: who sends a request, and what they may do (basic/authorization)."""
