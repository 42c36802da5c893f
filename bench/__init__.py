"""What backchannel costs, beside the official SDK, FastMCP and hand-written floors: `make bench`."""
