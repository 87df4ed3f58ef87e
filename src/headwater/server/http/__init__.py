"""The HTTP door: health today; CloudEvents, subscriptions and administration join it here."""
