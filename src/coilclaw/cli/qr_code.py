"""A QR code in characters, for a phone held up to the terminal."""

import io


def qr_text(text: str, columns: int | None = None) -> str:
    """The code in half blocks, two rows a line, with the quiet border that scanners need; empty if it is too wide."""
    import segno

    made = segno.make(text, error="m" if columns is None else "l", micro=False)
    if columns is not None and made.symbol_size(border=2)[0] > columns:
        return ""
    out = io.StringIO()
    made.terminal(out, compact=True, border=2)
    return out.getvalue()
