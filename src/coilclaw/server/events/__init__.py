"""The event stream: what happened, encoded once and handed to everybody who follows it."""
