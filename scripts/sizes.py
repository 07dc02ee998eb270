"""Print how large the tree is, and fail on a file over 500 or a function over 80 lines."""

import ast
import sys
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "coilclaw"
FILE_LINES = 500
FUNCTION_LINES = 80


def main() -> int:
    """Count, print, judge."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    long: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(SOURCE)
        room = name.parts[0] if len(name.parts) > 1 else "app"
        size = text.count("\n")
        files[room] += 1
        lines[room] += size
        if size > FILE_LINES:
            long.append(f"{name}: {size} lines; at most {FILE_LINES}")
        long += [
            f"{name}:{at}: {function} has {size} lines; at most {FUNCTION_LINES}"
            for at, function, size in functions(text)
        ]
    for room in sorted(files):
        print(f"{room:<10} {files[room]:>4} files {lines[room]:>6} lines")
    print(f"{'in all':<10} {files.total():>4} files {lines.total():>6} lines")
    print("\n".join(long), file=sys.stderr, end="\n" if long else "")
    return 1 if long else 0


def functions(text: str) -> list[tuple[int, str, int]]:
    """Functions that are too long: where, which, how long."""
    found = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    sized = ((node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in found)
    return [each for each in sized if each[2] > FUNCTION_LINES]


if __name__ == "__main__":
    sys.exit(main())
