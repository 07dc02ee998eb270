"""A transaction as code outside `store` sees it: only `store` knows the database behind it."""

import sqlite3
from typing import TypeAlias

Tx: TypeAlias = sqlite3.Connection
