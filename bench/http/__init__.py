"""Events over HTTP: how fast they go in, beside a handler that does nothing, and out to a thousand readers."""
