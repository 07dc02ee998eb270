"""A transaction as everybody outside `store` sees it: only `store` knows which database is behind it."""

import sqlite3
from typing import TypeAlias

Tx: TypeAlias = sqlite3.Connection
