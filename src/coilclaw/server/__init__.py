"""The server: REST, the event stream, pairing, tokens, passkeys and the panel's files.

It owns who may come in and how things are said over HTTP. It never decides what may happen (the gate does), never talks
to a model, and never runs anything: whatever has an effect is handed to it by the App.
"""
