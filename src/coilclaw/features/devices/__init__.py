"""Devices: pairing, signing in and out, and the passkeys that prove the owner."""
