"""RabbitMQ's management API as far as tools of stream clients call it, true to what this server holds."""
