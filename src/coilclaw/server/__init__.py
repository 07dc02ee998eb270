"""The server: REST, the event stream, pairing, tokens, passkeys and the panel's files.

Owns admission and the HTTP representation. It never decides what may happen (the gate does), never talks
to a model, and never runs anything: whatever has an effect is passed in by the app.
"""
