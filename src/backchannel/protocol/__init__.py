"""The protocol, sans-IO: standard library and msgspec only. No event loop, no clock, no randomness, no logger."""
