"""The new rows of refreshed stream tables -> how they are stored: appended, merged, or as a replacement."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.model.files import Role
from spark_trickle.model.stream import RefreshReport
from spark_trickle.txn.compact import compact_in_place
from spark_trickle.txn.work import Work


def choose_storage(work: Work, reports: list[RefreshReport]) -> list[RefreshReport]:
    """Choose for every table of a commit; the reports tell what was chosen for the stream tables."""
    chosen: dict[str, str] = {}
    for change in list(work.changes.values()):
        if change.table.derived and change.changes_content:
            anew = bool(change.ended) and any(f.role is Role.CHANGE for f in change.added)
            done = "replace: everything was computed" if anew else compact_in_place(work, change.table)
            chosen[change.table.full_name] = done
    told = [replace(r, apply=chosen.get(r.name, "")) for r in reports]
    by_name = {r.name: r.apply for r in told}
    refreshed = tuple(
        replace(r, report=replace(r.report, apply=by_name.get(r.report.name, ""))) for r in work.refreshed
    )
    work.state = replace(work.state, refreshed=refreshed)
    return told
