"""The calls of the package, and the values that they return -> the page of the Python API."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import Field, fields
from typing import Any

from reference_text import code

import spark_trickle
from spark_trickle.lake.catalog.scheduling import Alert
from spark_trickle.lake.storage.backup import BackupReport
from spark_trickle.model.report import Result
from spark_trickle.model.stream import RefreshReport
from spark_trickle.observe.answer import Answer
from spark_trickle.scheduler.loop import Scheduler, Tick
from spark_trickle.session import Trickle, trickle
from spark_trickle.sources.postgres.copy import Progress
from spark_trickle.sources.report import SyncReport
from spark_trickle.targets.push import Pushed

_VALUES = (Result, RefreshReport, Answer, Tick, Alert, SyncReport, Pushed, Progress, BackupReport)
_OF_SCHEDULER = (Scheduler.start, Scheduler.stop, Scheduler.run, Scheduler.tick, Scheduler.drain)
_ANSWERS = {"Iterator[Self]": "AbstractContextManager[Trickle]"}
_SECTION = re.compile(r"^    # --- (.+?) -+$|^    def (\w+)\(", re.MULTILINE)
_COMMENT = re.compile(r"^    (\w+): .*?  # (.+)$", re.MULTILINE)


def python_page() -> str:
    return f"""
# Python API

What is on this page is public; modules, functions and attributes that are not may change with every release.
Names of tables are strings such as `"orders"` or `"reports.orders"`. Errors are in [errors](errors.md).

## `spark_trickle`

{_write_calls([("connect", spark_trickle.connect), ("restore", spark_trickle.restore)])}

`listen` is called with the number of files done so far and of all files. `spark_trickle.TrickleError`
is the base of all errors, and `spark_trickle.__version__` the version.

{_write_sections()}

`progress` is called with a `Progress` while a table is copied, `on_alert` with each `Alert`.

## Values that calls return

{_write_values()}

### `Scheduler`

Made by `tr.scheduler()`. In a `with` block it runs in the background until the block ends.

{_write_calls([(f.__name__, f) for f in _OF_SCHEDULER])}
"""


def _write_sections() -> str:
    """The sections of the class, as its file has them."""
    parts, title, calls = [], "The connection", list[tuple[str, Callable[..., Any]]]()
    for section, name in _SECTION.findall(inspect.getsource(trickle)):
        if section:
            parts.append((title, calls))
            title, calls = section[0].upper() + section[1:], []
        elif not name.startswith("_"):
            calls.append((name, inspect.getattr_static(Trickle, name)))
    parts.append((title, calls))
    return "\n\n".join(f"## `Trickle`: {_lower(title)}\n\n{_write_calls(calls)}" for title, calls in parts)


def _lower(title: str) -> str:
    return title[0].lower() + title[1:]


def _write_calls(calls: list[tuple[str, Callable[..., Any]]]) -> str:
    return "\n".join(f"- {_write_call(n, f)}: {_write_doc(n, f)}" for n, f in calls)


def _write_call(name: str, call: Any) -> str:
    if isinstance(call, property):
        return code(f"{name}: {call.fget.__annotations__['return']}")
    signature = inspect.signature(call)
    given = [_write_parameter(p) for p in _with_star(signature)]
    answer = _ANSWERS.get(signature.return_annotation, signature.return_annotation)
    return code(f"{name}({', '.join(given)})" + ("" if answer == "None" else f" -> {answer}"))


def _with_star(signature: inspect.Signature) -> Iterator[inspect.Parameter | None]:
    """None stands for the star before those that are given by name."""
    starred = False
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            starred = True
            yield None
        if p.name != "self":
            yield p


def _write_parameter(p: inspect.Parameter | None) -> str:
    if p is None:
        return "*"
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    default = "…" if callable(p.default) else repr(p.default)
    return f"{star}{p.name}: {p.annotation}" + ("" if p.default is p.empty else f" = {default}")


def _write_doc(name: str, call: Any) -> str:
    text = inspect.getdoc(call)
    if not text:
        raise SystemExit(f"{name} has no docstring")
    return " ".join(text.split())


# --- values --------------------------------------------------------------------------------------------


def _write_values() -> str:
    return "\n\n".join(f"### `{cls.__name__}`\n\n{_write_value(cls)}" for cls in _VALUES)


def _write_value(cls: type) -> str:
    meanings = dict(_COMMENT.findall(inspect.getsource(cls)))
    told = [(code(_write_field(f)), meanings.get(f.name)) for f in fields(cls) if not f.name.startswith("_")]
    lines = "\n".join(f"- {field}: {meaning}" if meaning else f"- {field}" for field, meaning in told)
    return f"{_write_doc(cls.__name__, cls)}\n\n{lines}"


def _write_field(f: Field[Any]) -> str:
    return f"{f.name}: {f.type}"
