"""An open home without features: its parts, each built when it is first needed, so commands start fast.

Owns how the kernel is put together from the configuration. Never decides, runs or stores anything itself.
"""

from coilclaw.runtime.runtime import Log, Runtime

__all__ = ["Log", "Runtime"]
