"""Clients of the doors: asyncio shells over the protocol cores, and blocking ones over those."""
