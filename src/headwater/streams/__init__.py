"""The RabbitMQ Streams protocol without I/O: commands, their layouts, and the two ends of a connection."""
