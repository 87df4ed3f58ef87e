"""Events over HTTP: published, read, followed."""
