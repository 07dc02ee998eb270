"""Redaction of every sink: registered values first, known token shapes second, header and field context third.

Owns what counts as a secret in text. Never stores, prints or sends a value, and never decides who may have it.
"""
