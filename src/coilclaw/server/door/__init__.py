"""The door: everything between a connection and the route that answers it."""
