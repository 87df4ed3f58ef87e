"""CloudEvents 1.0: the event, its formats and bindings, and the filters over it."""
