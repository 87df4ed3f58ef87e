"""The AMQP 1.0 protocol without I/O."""
