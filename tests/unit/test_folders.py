"""tests/unit mirrors src: whoever looks for the tests of a package knows where they are."""

from __future__ import annotations

from pathlib import Path

import spark_trickle

HERE, SOURCE = Path(__file__).parent, Path(spark_trickle.__file__).parent


def test_every_folder_is_named_after_a_package() -> None:
    folders = {init.parent.relative_to(HERE) for init in HERE.rglob("__init__.py")}
    packages = {init.parent.relative_to(SOURCE) for init in SOURCE.rglob("__init__.py")}
    assert folders - packages == set()


def test_every_folder_has_tests() -> None:
    """Of its own, or in a folder below."""
    folders = [init.parent for init in HERE.rglob("__init__.py")]
    assert [f for f in folders if not any(f.rglob("test_*.py"))] == []


def test_every_file_of_tests_is_in_a_package() -> None:
    """Files of one name may lie in different folders only if these are packages."""
    assert [f for f in HERE.rglob("*.py") if not (f.parent / "__init__.py").exists()] == []
