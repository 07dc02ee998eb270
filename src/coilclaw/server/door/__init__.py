"""The way in: everything between a connection and the route that answers it."""
