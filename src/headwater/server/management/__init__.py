"""What people and tools see of a running server and change in it, whichever door they come by."""
