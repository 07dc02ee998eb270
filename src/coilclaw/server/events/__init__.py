"""The event stream: events encoded once and sent to all followers."""
