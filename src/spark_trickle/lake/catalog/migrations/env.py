"""How alembic runs here: inside the transaction that `upgrade_catalog` was given."""

from alembic import context

from spark_trickle.lake.catalog.migrations import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
