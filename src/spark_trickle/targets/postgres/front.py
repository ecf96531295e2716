"""A stream table -> a table in PostgreSQL that is always at one whole snapshot of it.

`create` makes the table, `apply` brings it from one snapshot to a later one in a single transaction, `repair`
brings it to given rows whatever it holds, `adopt` makes another copy of the warehouse its writer, `drop`
forgets it. All take an open connection in autocommit mode
(see cdc.postgres.connect), and rows as Arrow tables.
"""

from spark_trickle.targets.postgres.apply import apply
from spark_trickle.targets.postgres.create import adopt, create, drop
from spark_trickle.targets.postgres.ledger import CHANNEL, Applied, refuse_copy
from spark_trickle.targets.postgres.repair import repair
from spark_trickle.targets.postgres.rights import publish_rights
from spark_trickle.targets.postgres.status import State, has_rows, published, state
from spark_trickle.targets.postgres.target import LEDGER, Target, target_for

__all__ = [
    "CHANNEL",
    "LEDGER",
    "Applied",
    "State",
    "Target",
    "adopt",
    "apply",
    "create",
    "drop",
    "has_rows",
    "publish_rights",
    "published",
    "refuse_copy",
    "repair",
    "state",
    "target_for",
]
