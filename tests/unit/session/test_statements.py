"""Every kind of statement is handled once."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import get_args

from spark_trickle.session import statements
from spark_trickle.sql.statements import kinds


def test_every_kind_has_one_case() -> None:
    """That none is missing, mypy says too; a second case for the same kind would never run."""
    tree = ast.parse(Path(statements.__file__).read_text())
    cases = Counter(
        node.cls.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Attribute)
    )
    assert cases == Counter(kind.__name__ for kind in get_args(kinds.Statement))
