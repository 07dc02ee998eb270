"""OAuth 2.1 by authorization code and PKCE, once for every feature that connects an account. See docs/oauth.md.

Owns the flow, the token requests and the access tokens in memory. Reads no configuration, and goes only to hosts that
the owner named.
"""
