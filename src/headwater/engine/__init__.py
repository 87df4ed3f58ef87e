"""Control state, pure: commands in, effects out; no clock and no I/O."""
