"""OPTIONS of a source of files -> values."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, fields
from enum import StrEnum

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model.arriving import FileFormat
from spark_trickle.sources.interface import Overwritten
from spark_trickle.sources.options import SWITCH, name_members, option

INFER = "infer"


class FormatName(StrEnum):
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"


_OF_CSV, _OF_TEXT = ("csv",), ("csv", "json")
_ONLY_FOR = {
    "header": _OF_CSV,
    "separator": _OF_CSV,
    "quote": _OF_CSV,
    "escape": _OF_CSV,
    "null_value": _OF_CSV,
    "multiline": _OF_TEXT,
    "encoding": _OF_TEXT,
    "date_format": _OF_TEXT,
    "timestamp_format": _OF_TEXT,
}


@dataclass(frozen=True)
class FilesOptions:
    """Where the files are, what they hold, and what happens to them."""

    path: str = option(
        "",
        "The files: a folder, or a pattern with `*`, `?`, `[…]` and `**` (any folders). `{table}` stands for"
        " the name of the table.",
        is_path=True,
    )
    format: FormatName = option(  # noqa: RUF009 a field
        FormatName.JSON, "The format of the files.", name_members(FormatName)
    )
    schema: str = option(
        INFER, "The columns, as in `id BIGINT, name STRING`; or `infer`: those of the first files."
    )
    evolve: bool = option(
        False,
        "`add`: new columns in later files are added to the table.",
        {"none": False, "add": True},
    )
    overwritten: Overwritten = option(  # noqa: RUF009 a field
        Overwritten.REPLACE,
        "What happens when a loaded file is overwritten: its rows are replaced, it is noted among the"
        " rejects, or nothing.",
        name_members(Overwritten),
    )
    max_files: str = option("1000", "The most files that one sync loads; the next one continues.")
    settle_seconds: str = option("0", "How many seconds a file must be unchanged before it is loaded.")
    header: bool = option(False, "CSV: the first line of each file names the columns.", SWITCH)
    multiline: bool = option(
        False, "JSON: a file is one value, not one a line. CSV: quoted values may have lines.", SWITCH
    )
    separator: str = option(",", "CSV: what is between two values.")
    quote: str = option('"', "CSV: what is around values that hold a separator.")
    escape: str = option("\\", "CSV: what is before a quote that belongs to a value.")
    null_value: str = option("", "CSV: the text that means NULL.")
    encoding: str = option("UTF-8", "CSV and JSON: the encoding of the text.")
    date_format: str = option("", "CSV and JSON: the pattern of dates, as Spark writes them.")
    timestamp_format: str = option("", "CSV and JSON: the pattern of timestamps.")

    def refuse_others(self) -> None:
        """Options that mean nothing for the format would be a mistake that nobody notices."""
        for f in fields(self):
            formats = _ONLY_FOR.get(f.name, self.format.value)
            if self.format.value not in formats and getattr(self, f.name) != f.default:
                raise InvalidDefinitionError(
                    f'the option "{f.name}" does not apply to files of the format {self.format.value}',
                    "Leave it out, or correct the format.",
                )

    def refuse_bad_text(self) -> None:
        """Spark would take its own default for what is empty, or find out in the middle of a load."""
        for name in ("separator", "quote", "escape"):
            if len(_unescape(getattr(self, name))) != 1:
                raise InvalidDefinitionError(f'the option "{name}" is not one letter', "Write one letter.")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise InvalidDefinitionError(
                f'there is no encoding "{self.encoding}"', "Write one such as UTF-8 or ISO-8859-1."
            ) from None

    @property
    def most(self) -> int:
        return _read_number("max_files", self.max_files, 1)

    @property
    def settle(self) -> int:
        return _read_number("settle_seconds", self.settle_seconds, 0)

    def make_format(self) -> FileFormat:
        """What Spark is told; formats that are not text need no words."""
        if self.format not in (FormatName.JSON, FormatName.CSV):
            return FileFormat(self.format.value)
        given = {
            "encoding": self.encoding if self.encoding.upper() != "UTF-8" else "",
            "dateFormat": self.date_format,
            "timestampFormat": self.timestamp_format,
            "multiLine": "true" if self.multiline else "",
        }
        if self.format is FormatName.CSV:
            given |= {
                "header": "true" if self.header else "",
                "enforceSchema": "false" if self.header else "",
                "sep": _unescape(self.separator),
                "quote": _unescape(self.quote),
                "escape": _unescape(self.escape),
                "nullValue": self.null_value,
            }
        chosen = tuple((name, value) for name, value in given.items() if value)
        by_position = self.format is FormatName.CSV and not self.header
        return FileFormat(self.format.value, chosen, by_record=True, by_position=by_position)


def _unescape(text: str) -> str:
    return "\t" if text == "\\t" else text


def _read_number(name: str, text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise InvalidDefinitionError(
            f'"{text}" is not a value for the option "{name}"',
            f"Write a whole number, at least {least}.",
        )
    return int(text)
