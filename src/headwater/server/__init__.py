"""The server process: its settings, its start and stop, and the listeners of its doors."""
