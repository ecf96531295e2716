"""A stream table -> a table in PostgreSQL that is always at one whole snapshot of it.

`create_target` makes the table, `apply_change` brings it from one snapshot to a later one in a single
transaction, `repair_rows` brings it to given rows whatever it holds, `adopt_target` makes another copy of the
warehouse its writer, `drop_target` forgets it. All take an open connection in autocommit mode
(see sources.postgres.connect), and rows as Arrow tables.
"""

from spark_trickle.targets.interface import Applied, PublishedState
from spark_trickle.targets.postgres.apply import apply_change
from spark_trickle.targets.postgres.create import adopt_target, create_target, drop_target
from spark_trickle.targets.postgres.ledger import CHANNEL, refuse_copy
from spark_trickle.targets.postgres.repair import repair_rows
from spark_trickle.targets.postgres.rights import publish_rights
from spark_trickle.targets.postgres.status import has_rows, read_published, read_state
from spark_trickle.targets.postgres.target import LEDGER, Target, target_for

__all__ = [
    "CHANNEL",
    "LEDGER",
    "Applied",
    "PublishedState",
    "Target",
    "adopt_target",
    "apply_change",
    "create_target",
    "drop_target",
    "has_rows",
    "publish_rights",
    "read_published",
    "read_state",
    "refuse_copy",
    "repair_rows",
    "target_for",
]
