"""Rename a function everywhere it is used."""

from tests.acceptance.daily.task import TESTS, WRITES, Task, call, edit, plan, tests

STEPS = ("find every use", "rename", "run the tests")

TASK = Task(
    name="rename a function across files",
    says="rename calc to total_price everywhere in shop, and see that the tests still pass",
    files={
        "shop/shop/__init__.py": "",
        "shop/shop/pricing.py": '''"""Prices."""

RATES = {"book": 7, "toy": 19}


def calc(kind: str, net: int) -> int:
    """The price with tax, in cents."""
    return net + net * RATES[kind] // 100
''',
        "shop/shop/cart.py": '''"""A cart."""

from shop.pricing import calc


class Cart:
    """Things and what they cost."""

    def __init__(self) -> None:
        self.things: list[tuple[str, int]] = []

    def add(self, kind: str, net: int) -> None:
        """Put something in."""
        self.things.append((kind, net))

    def total(self) -> int:
        """What all of it costs; calculations are in cents."""
        return sum(calc(kind, net) for kind, net in self.things)
''',
        "shop/shop/cli.py": '''"""The command line."""

import sys

from shop import pricing


def main(argv: list[str]) -> str:
    """One price."""
    return str(pricing.calc(argv[0], int(argv[1])))


if __name__ == "__main__":
    print(main(sys.argv[1:]))
''',
        "shop/tests/__init__.py": "",
        "shop/tests/test_shop.py": """import unittest

from shop import pricing
from shop.cart import Cart
from shop.cli import main


class Prices(unittest.TestCase):
    def test_tax_is_added(self):
        self.assertEqual(pricing.calc("book", 1000), 1070)

    def test_a_cart_adds_up(self):
        cart = Cart()
        cart.add("book", 1000)
        cart.add("toy", 100)
        self.assertEqual(cart.total(), 1189)

    def test_the_command_line(self):
        self.assertEqual(main(["toy", "100"]), "119")
""",
        "shop/README.md": "# shop\n\n`calc(kind, net)` gives the price with tax.\n",
    },
    rounds=[
        [plan(*STEPS, done=0), call("file_search", pattern=r"\bcalc\b", path="shop")],
        [
            plan(*STEPS, done=1),
            edit("shop/shop/pricing.py", ("def calc(", "def total_price(")),
            edit("shop/shop/cart.py", ("import calc", "import total_price"), ("sum(calc(", "sum(total_price(")),
            edit("shop/shop/cli.py", ("pricing.calc(", "pricing.total_price(")),
            edit("shop/tests/test_shop.py", ("pricing.calc(", "pricing.total_price(")),
            edit("shop/README.md", ("`calc(", "`total_price(")),
        ],
        [plan(*STEPS, done=2), call("file_search", pattern=r"\bcalc\b", path="shop"), tests("shop")],
        [plan(*STEPS, done=3)],
    ],
    answers=[WRITES, TESTS],
    gone=[r"\bcalc\b"],
    there=[r"def total_price\(", r"calculations are in cents"],
)
