"""Views: records as they are said over HTTP, without secrets."""
