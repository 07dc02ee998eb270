"""The wiring: the only place where rooms meet. Everything is built when first needed, so commands start fast.

Owns how parts are put together from the configuration. Never decides, runs or stores anything itself.
"""

from coilclaw.app.app import App, Say

__all__ = ["App", "Say"]
