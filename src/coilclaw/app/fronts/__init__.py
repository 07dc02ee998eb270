"""Fronts: an App as each part of the server sees it. They read and hand over; they hold no rules."""
