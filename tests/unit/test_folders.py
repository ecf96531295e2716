"""tests/unit mirrors src: whoever looks for the tests of a package knows where they are."""

from __future__ import annotations

from pathlib import Path

import spark_trickle

HERE, SOURCE = Path(__file__).parent, Path(spark_trickle.__file__).parent
# Packages that need Spark, a server or files of others to be tested, and where that happens.
ELSEWHERE = {
    "dml": "tests/spark",
    "lake/catalog/migrations": "tests/unit/lake/catalog/test_migrations.py",
    "sources/files": "tests/sources/test_files.py",
    "sql/render": "tests/laws",
    "targets/delta": "tests/sources/test_publish_delta.py",
}


def list_packages(root: Path) -> set[str]:
    return {init.parent.relative_to(root).as_posix() for init in root.rglob("__init__.py")}


def test_every_folder_is_named_after_a_package() -> None:
    assert list_packages(HERE) - list_packages(SOURCE) == set()


def test_every_package_has_a_folder_or_is_tested_elsewhere() -> None:
    assert list_packages(SOURCE) - list_packages(HERE) == set(ELSEWHERE)
    assert [place for place in ELSEWHERE.values() if not (HERE.parents[1] / place).exists()] == []


def test_every_folder_has_tests() -> None:
    """Of its own, or in a folder below."""
    folders = [init.parent for init in HERE.rglob("__init__.py")]
    assert [f for f in folders if not any(f.rglob("test_*.py"))] == []


def test_every_file_of_tests_is_in_a_package() -> None:
    """Files of one name may lie in different folders only if these are packages."""
    assert [f for f in HERE.rglob("*.py") if not (f.parent / "__init__.py").exists()] == []
