"""The commands of `trickle` -> their page."""

from __future__ import annotations

import typer
from reference_text import code, table
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from spark_trickle.cli.main import app


def commands_page() -> str:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    options = table(["option", "meaning"], _list_parameters(group))
    parts = [_write_command(name, command) for name, command in group.commands.items()]
    return f"""
# Commands

`trickle COMMAND --help` shows the same. The exit code is 0, or says who has to act; see [errors](errors.md).
These options may come before or after every command; see
[the command line on a cluster](../guide/spark-and-postgresql.md#the-command-line-on-a-cluster):

{options}

""" + "\n\n".join(parts)


def _write_command(name: str, command: TyperCommand) -> str:
    arguments = [_write_argument(p) for p in command.params if isinstance(p, TyperArgument)]
    call = " ".join(["trickle", name, *arguments])
    text = " ".join((command.help or "").split())
    rows = _list_parameters(command)
    return f"## `{call}`\n\n{text}" + (f"\n\n{table(['option', 'meaning'], rows)}" if rows else "")


def _write_argument(p: TyperArgument) -> str:
    name = (p.name or "").upper()
    return name if p.required else f"[{name}]"


def _list_parameters(command: TyperCommand | TyperGroup) -> list[list[str]]:
    return [
        [code(_write_option(p)), _write_meaning(p)]
        for p in command.params
        if isinstance(p, TyperOption) and "--help" not in p.opts and not p.hidden
    ]


def _write_option(p: TyperOption) -> str:
    return ", ".join(p.opts) + ("" if p.is_flag else " …")


def _write_meaning(p: TyperOption) -> str:
    shown = p.default is not None and not p.is_flag and p.default not in ("", [])
    return f"{p.help or ''}{f' Default: {p.default}.' if shown else ''}"
