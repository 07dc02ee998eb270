"""A QR code in characters, for a phone held up to the terminal."""

import io


def qr_text(text: str) -> str:
    """The code in half blocks, two rows a line, with the quiet border that scanners need."""
    import segno

    out = io.StringIO()
    segno.make(text, error="m", micro=False).terminal(out, compact=True, border=2)
    return out.getvalue()
