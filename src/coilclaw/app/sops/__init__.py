"""Procedures, put together from an App: begun, gone on with, as the work of a job, and where they lie."""
