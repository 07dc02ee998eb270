"""Requests as bytes, and problems as codes."""

import asyncio


def code(answer):
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"]


async def raw(site, text, *, wait=5.0):
    """Send bytes as they are, and read until the server closes or says no more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(text if isinstance(text, bytes) else text.encode())
    await writer.drain()
    try:
        async with asyncio.timeout(wait):
            return (await reader.read()).decode()
    finally:
        writer.close()


def request(site, *lines, method="GET", path="/v1/echo", host=None):
    head = [f"{method} {path} HTTP/1.1", f"Host: {host or f'localhost:{site.port}'}", "Connection: close", *lines]
    return "\r\n".join(head) + "\r\n\r\n"
