"""What the pages name exists: files and modules, anchors, calls, table functions, commands and make targets."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from spark_trickle.cli.main import app
from spark_trickle.observe import functions as standing
from spark_trickle.refresh import functions as streams
from spark_trickle.session import Trickle
from spark_trickle.txn import functions
from tests.e2e.pages import ROOT

SOURCE = ROOT / "src" / "spark_trickle"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "ops").glob("*.md")),
]

# In the folders of users, or no files at all.
OF_USERS = {"trickle.toml", "pg_service.conf", "spark-defaults.conf", "warehouse.json", "newest.json"}
OF_USERS |= {"data/_trickle", "Etc/UTC"}

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"^```mermaid\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MODULE = re.compile(r"[a-z_]+(?:/[a-z_]+)+")
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.*-]+(/[\w.*-]+)+/?|[\w-]+\.(py|sh|toml|json|conf|md|yml)")
_DOTTED = re.compile(r"spark_trickle(?:\.\w+)+")
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _list_missing(find: Callable[[str], Iterable[str]], exists: Callable[[str], object]) -> list[str]:
    """What is found on some page, and is nowhere else."""
    found = ((page, name) for page in PAGES for name in find(page.read_text(encoding="utf-8")))
    return sorted({f"{page.relative_to(ROOT)}: {name}" for page, name in found if not exists(name)})


def _list_words(text: str) -> list[str]:
    """What stands between backticks, and the modules in pictures."""
    pictures = "".join(_PICTURE.findall(text))
    return [*_CODE.findall(_FENCE.sub("", text)), *_MODULE.findall(pictures)]


# --- the code ------------------------------------------------------------------------------------------


def test_files_and_modules_exist() -> None:
    assert _list_missing(_list_paths, _is_file) == []


def _list_paths(text: str) -> set[str]:
    return {word for word in _list_words(text) if _PATH.fullmatch(word)} - OF_USERS


def _is_file(path: str) -> bool:
    """In the repository, or in the package, where a module goes without its ending."""
    return any(
        next(base.glob(f"{path.rstrip('/')}{ending}"), None)
        for base in (ROOT, SOURCE)
        for ending in ("", ".py")
    )


def test_dotted_names_exist() -> None:
    assert _list_missing(_DOTTED.findall, _resolve) == []


def _resolve(name: str) -> object:
    """A module, or what it holds."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        owner, _, last = name.rpartition(".")
        return getattr(_resolve(owner), last, None)


def test_make_targets_exist() -> None:
    targets = _list_targets()
    assert _list_missing(lambda text: _first_words(_list_words(text), "make"), targets.__contains__) == []


def test_contributors_are_told_of_every_make_target() -> None:
    told = re.findall(r"^\| `make ([a-z-]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M)
    assert set(told) == _list_targets() - {"help"}


def _list_targets() -> set[str]:
    """Those that `make help` lists."""
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


def _first_words(lines: Iterable[str], program: str) -> Iterator[str]:
    """What a program is called with."""
    for line in lines:
        yield from re.findall(rf"^(?:\$ )?(?:\.venv/bin/)?{program} ([a-z-]+)", line)


# --- what users type -----------------------------------------------------------------------------------


def test_calls_exist() -> None:
    assert _list_missing(re.compile(r"\btr\.(\w+)").findall, lambda name: hasattr(Trickle, name)) == []


def test_table_functions_exist() -> None:
    known = {*functions._FUNCTIONS, *streams.FUNCTIONS, *standing.FUNCTIONS}
    assert _list_missing(re.compile(r"\btrickle\.(\w+)\(").findall, known.__contains__) == []


def test_commands_exist() -> None:
    known = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback is not None}

    def list_commands(text: str) -> Iterator[str]:
        lines = [line for block in _SHELL.findall(text) for line in block.splitlines()]
        return _first_words([*_list_words(text), *lines], "trickle")

    assert _list_missing(list_commands, known.__contains__) == []


# --- the pages -----------------------------------------------------------------------------------------


def test_anchors_exist() -> None:
    lost = [
        (page.name, target, anchor)
        for page in PAGES
        for target, anchor in _LINK.findall(page.read_text(encoding="utf-8"))
        if anchor not in _list_anchors(page.parent / target if target else page)
    ]
    assert lost == []


def _list_anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
