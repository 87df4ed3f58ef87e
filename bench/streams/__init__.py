"""The stream door beside RabbitMQ: the same load on both, one after the other."""
