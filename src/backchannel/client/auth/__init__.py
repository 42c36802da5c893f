"""Authorization of the client: the OAuth flow, the grants, and where their tokens are kept (basic/authorization)."""
