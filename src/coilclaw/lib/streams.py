"""How much of a connection is read ahead, and how one is ended."""

import asyncio

READ = 1 << 16
"""How much of a connection is read ahead."""


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close, with a moment for pending writes, then abort."""
    try:
        async with asyncio.timeout(1):
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
