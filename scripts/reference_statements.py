"""What the reference says of each statement; the script that writes it checks that none is missing."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.sql.statements import kinds as s


@dataclass(frozen=True)
class Shape:
    """How a statement is written, and an example that the parser must understand as that statement."""

    kind: type
    syntax: str
    example: str
    meaning: str


QUERIES = (
    Shape(
        s.Query,
        "SELECT …",
        "SELECT 1",
        "Anything Spark can read. Our tables, views and table functions may stand beside temporary views,"
        " tables of the Spark session, and files such as parquet.`path`."
        " All our tables are read at one snapshot.",
    ),
    Shape(
        s.Query,
        "SELECT … FROM t VERSION AS OF n",
        "SELECT * FROM t VERSION AS OF 3",
        "The table as it was at a snapshot.",
    ),
    Shape(
        s.Query,
        "SELECT … FROM t TIMESTAMP AS OF moment",
        "SELECT * FROM t TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY",
        "The table as it was at a moment.",
    ),
    Shape(
        s.Query,
        "SELECT … FROM t CHANGES FROM VERSION a [INCLUSIVE] [TO VERSION b [EXCLUSIVE]]",
        "SELECT * FROM t CHANGES FROM VERSION 3 TO VERSION 9",
        "What changed after snapshot a, up to and including b. Also with TIMESTAMP in place of VERSION.",
    ),
    Shape(
        s.CreateTempView,
        "CREATE [OR REPLACE] TEMP[ORARY] VIEW v AS query",
        "CREATE TEMP VIEW v AS SELECT * FROM t",
        "A view of the Spark session, with the snapshot of this moment; it is not stored.",
    ),
)

DEFINITIONS = (
    Shape(
        s.CreateTable,
        "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t (\n"
        "  column type [NOT NULL] [DEFAULT value] [COMMENT 'text'] [PRIMARY KEY [NOT ENFORCED]], …\n"
        "  [, PRIMARY KEY (column, …) [NOT ENFORCED]])",
        "CREATE TABLE IF NOT EXISTS t (id BIGINT, n INT NOT NULL DEFAULT 0, PRIMARY KEY (id))",
        "A new, empty table.",
    ),
    Shape(
        s.CreateTable,
        "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t AS query",
        "CREATE TABLE t AS SELECT 1 AS id",
        "A new table with the columns and rows of a query.",
    ),
    Shape(
        s.DropTable,
        "DROP TABLE [IF EXISTS] t",
        "DROP TABLE IF EXISTS t",
        "Older snapshots still show it, until VACUUM.",
    ),
    Shape(
        s.CreateView,
        "CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(column, …)] [COMMENT 'text'] AS query",
        "CREATE VIEW v (n) AS SELECT id FROM t",
        "A query under a name, run when it is read. DuckDB does not see it: its text is Spark SQL.",
    ),
    Shape(s.DropView, "DROP VIEW [IF EXISTS] v", "DROP VIEW v", "The view goes; its tables stay."),
    Shape(
        s.CreateSchema,
        "CREATE SCHEMA [IF NOT EXISTS] x",
        "CREATE SCHEMA x",
        "A place for names. The first one is called main.",
    ),
    Shape(
        s.DropSchema,
        "DROP SCHEMA [IF EXISTS] x [CASCADE]",
        "DROP SCHEMA x CASCADE",
        "CASCADE drops what is in it as well.",
    ),
    Shape(
        s.AddColumns,
        "ALTER TABLE t ADD COLUMN column type [NOT NULL] [DEFAULT value]\n"
        "ALTER TABLE t ADD COLUMNS (column type …, …)",
        "ALTER TABLE t ADD COLUMNS (a INT, b STRING DEFAULT 'x')",
        "Rows that are there already take the default of this moment, or NULL. No data file is written.",
    ),
    Shape(
        s.DropColumns,
        "ALTER TABLE t DROP COLUMN [IF EXISTS] a, b",
        "ALTER TABLE t DROP COLUMN a",
        "Older snapshots still show it. Columns of the key cannot be dropped.",
    ),
    Shape(
        s.RenameColumn,
        "ALTER TABLE t RENAME COLUMN a TO b",
        "ALTER TABLE t RENAME COLUMN a TO b",
        "No data file is written.",
    ),
    Shape(
        s.AlterColumn,
        "ALTER TABLE t ALTER COLUMN a TYPE type",
        "ALTER TABLE t ALTER COLUMN a TYPE BIGINT",
        "A type can be widened; see [types](types.md).",
    ),
    Shape(
        s.AlterColumn,
        "ALTER TABLE t ALTER COLUMN a {SET | DROP} NOT NULL",
        "ALTER TABLE t ALTER COLUMN a SET NOT NULL",
        "SET is refused while a row holds NULL.",
    ),
    Shape(
        s.AlterColumn,
        "ALTER TABLE t ALTER COLUMN a {SET DEFAULT value | DROP DEFAULT}",
        "ALTER TABLE t ALTER COLUMN a SET DEFAULT 7",
        "For rows that come later.",
    ),
    Shape(
        s.AlterColumn,
        "ALTER TABLE t ALTER COLUMN a COMMENT 'text'",
        "ALTER TABLE t ALTER COLUMN a COMMENT 'what it means'",
        "DESCRIBE shows it.",
    ),
    Shape(
        s.RenameTable,
        "ALTER TABLE t RENAME TO [x.]u",
        "ALTER TABLE t RENAME TO x.u",
        "Also into another schema.",
    ),
)

STREAMS = (
    Shape(
        s.CreateStream,
        "CREATE [OR REPLACE] STREAM TABLE [IF NOT EXISTS] s [(column, …)]\n"
        "  [SCHEDULE '1m' | SCHEDULE 'calculated' | [SCHEDULE] CRON '*/5 * * * *']\n"
        "  [REFRESH MODE AUTO | DIFFERENTIAL | FULL | IMMEDIATE] [WITH (option = value, …)]\n"
        "  AS query",
        "CREATE STREAM TABLE s SCHEDULE '1m' AS SELECT a, count(*) AS n FROM t GROUP BY a",
        "A table that is kept equal to a query by computing only what changed."
        " CREATE MATERIALIZED VIEW means the same. See [options](options.md#of-a-stream-table).",
    ),
    Shape(
        s.SteerStream,
        "ALTER STREAM TABLE name {SUSPEND | RESUME}",
        "ALTER STREAM TABLE revenue RESUME",
        "The scheduler leaves it alone, or refreshes it again.",
    ),
    Shape(
        s.RefreshStream,
        "REFRESH STREAM TABLE s",
        "REFRESH STREAM TABLE s",
        "Bring it to the newest snapshot. AUTO decides between computing what changed and everything.",
    ),
    Shape(
        s.AlterStream,
        "ALTER STREAM TABLE s SET SCHEDULE '…'\nALTER STREAM TABLE s SET REFRESH MODE mode\n"
        "ALTER STREAM TABLE s SET (option = value, …)\nALTER STREAM TABLE s AS query",
        "ALTER STREAM TABLE s AS SELECT a FROM t",
        "Change how it is refreshed, or its query: the new rows take the place of the old in one commit.",
    ),
    Shape(
        s.ExplainStream,
        "EXPLAIN STREAM TABLE s",
        "EXPLAIN STREAM TABLE s",
        "Its nodes, operators and costs, the SQL of every delta, and what the next refresh would do: why, by"
        " which passes, and where it would run.",
    ),
    Shape(
        s.ExplainQuery,
        "EXPLAIN CREATE STREAM TABLE …",
        "EXPLAIN CREATE STREAM TABLE s AS SELECT a FROM t",
        "The nodes, operators and costs of a stream table, without creating it.",
    ),
    Shape(
        s.DropStream,
        "DROP STREAM TABLE [IF EXISTS] s [CASCADE]",
        "DROP STREAM TABLE IF EXISTS s CASCADE",
        "Remove it; with CASCADE also the stream tables that read it.",
    ),
)

SOURCES = (
    Shape(
        s.AttachSource,
        "ATTACH SOURCE [IF NOT EXISTS] name TYPE postgres OPTIONS (\n"
        "  {dsn 'env:NAME' | service '…' | dsn '…', passfile '…'}\n"
        "  [, cdc_mode 'auto' | 'trigger' | 'wal'] [, tables 'public.*'] [, schema 'trickle_changes']\n"
        "  [, capture 'statement' | 'row'] [, unlogged 'false'] [, guarded 'true'] [, notify 'false']\n"
        "  [, copy 'direct' | 'jdbc'] [, resync 'auto' | 'manual'])",
        "ATTACH SOURCE shop TYPE postgres OPTIONS (dsn 'env:SHOP_DSN', tables 'public.*')",
        "A PostgreSQL database whose tables may be mirrored here."
        " The catalog keeps where the password is, never the password."
        " See [options](options.md#of-a-source).",
    ),
    Shape(
        s.MirrorTable,
        "CREATE TABLE [IF NOT EXISTS] t FROM SOURCE name.schema.table [(column, …)]\n"
        "  [WITH (skip 'column, …', as_text 'column, …')]",
        "CREATE TABLE orders FROM SOURCE shop.public.orders",
        "A read-only mirror: a first copy, then every change. The key is always among its columns.",
    ),
    Shape(
        s.MirrorTables,
        "ALTER SOURCE name ADD TABLES 'schema.*' [INTO schema]",
        "ALTER SOURCE shop ADD TABLES 'public.*'",
        "A mirror for every table that is meant and not mirrored yet.",
    ),
    Shape(
        s.WidenMirror,
        "ALTER TABLE t ADD COLUMNS FROM SOURCE (column, …)",
        "ALTER TABLE orders ADD COLUMNS FROM SOURCE (comment)",
        "Capture more columns of the table that a mirror follows; it is copied again for them.",
    ),
    Shape(
        s.SyncSource,
        "SYNC SOURCE name [TAKE OVER]",
        "SYNC SOURCE shop",
        "Bring all mirrors of a source to what it holds now, in one commit. A source serves one copy of a"
        " warehouse; with TAKE OVER it serves this one from now on, and no other.",
    ),
    Shape(
        s.ResyncTable,
        "RESYNC TABLE t",
        "RESYNC TABLE orders",
        "Copy the table behind a mirror again, with the columns it has now; only rows that differ change.",
    ),
    Shape(
        s.DetachSource,
        "DETACH SOURCE [IF EXISTS] name [CASCADE] [FORCE]",
        "DETACH SOURCE shop",
        "Take everything of ours out of the database. Mirrors become ordinary tables; with CASCADE they go."
        " FORCE forgets a database that cannot be reached.",
    ),
    Shape(
        s.PublishStream,
        "PUBLISH STREAM TABLE s TO SOURCE name [AS schema.table]",
        "PUBLISH STREAM TABLE revenue TO SOURCE shop AS public.revenue_live",
        "Keep its rows in a table of the database too; each refresh is one transaction there.",
    ),
    Shape(
        s.RepairPublished,
        "PUBLISH STREAM TABLE s REPAIR",
        "PUBLISH STREAM TABLE revenue REPAIR",
        "Compare the table there with the stream table, and change what differs.",
    ),
    Shape(
        s.UnpublishStream,
        "UNPUBLISH STREAM TABLE s [{KEEP | DROP} TABLE]",
        "UNPUBLISH STREAM TABLE revenue",
        "Stop. The table there stays as it is for those who read it, and may be published again; "
        "with DROP TABLE it goes.",
    ),
)

CHANGES = (
    Shape(
        s.Insert,
        "INSERT INTO t [(column, …)] {VALUES (…), … | query}",
        "INSERT INTO t (id) VALUES (1), (2)",
        "Columns that are not named take their default; the word DEFAULT may stand for a value.",
    ),
    Shape(
        s.Insert,
        "INSERT INTO t BY NAME query",
        "INSERT INTO t BY NAME SELECT 1 AS id",
        "Columns are matched by name.",
    ),
    Shape(
        s.Insert,
        "INSERT OVERWRITE t {VALUES (…), … | query}",
        "INSERT OVERWRITE t SELECT * FROM u",
        "All old rows go and the new ones come, in one commit.",
    ),
    Shape(
        s.Update,
        "UPDATE t [AS a] SET column = value, … [FROM u] [WHERE condition]",
        "UPDATE t SET n = u.n FROM u WHERE t.id = u.id",
        "A row that several rows of u meet is an error.",
    ),
    Shape(
        s.Delete,
        "DELETE FROM t [AS a] [USING u] [WHERE condition]",
        "DELETE FROM t WHERE id IN (SELECT id FROM u)",
        "Without a condition the same as TRUNCATE.",
    ),
    Shape(
        s.Merge,
        "MERGE INTO t [AS a] USING u ON condition\n"
        "  WHEN MATCHED [AND condition] THEN {UPDATE SET column = value, … | UPDATE SET * | DELETE}\n"
        "  WHEN NOT MATCHED [AND condition] THEN {INSERT (column, …) VALUES (…) | INSERT *}\n"
        "  WHEN NOT MATCHED BY SOURCE [AND condition] THEN {UPDATE SET column = value, … | DELETE}",
        "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "Any number of clauses; each row takes the first that applies.",
    ),
    Shape(s.Truncate, "TRUNCATE TABLE t", "TRUNCATE TABLE t", "All rows go; the change feed tells which."),
)

TRANSACTIONS = (
    Shape(
        s.Begin,
        "BEGIN [TRANSACTION | WORK]\nSTART TRANSACTION",
        "BEGIN",
        "What follows becomes one commit.",
    ),
    Shape(s.CommitWork, "COMMIT", "COMMIT", "Publish it all as one snapshot, or nothing."),
    Shape(s.Rollback, "ROLLBACK", "ROLLBACK", "Forget it all."),
)

MAINTENANCE = (
    Shape(
        s.Optimize,
        "OPTIMIZE [TABLE] t",
        "OPTIMIZE t",
        "Replace the files of a table by their sum. The content stays the same.",
    ),
    Shape(
        s.Vacuum,
        "VACUUM [t] [RETAIN n HOURS] [DRY RUN]",
        "VACUUM RETAIN 24 HOURS",
        "Forget snapshots older than that, and delete files that only they need: of one table, or of all."
        " With DRY RUN nothing is changed, and the files are listed with the reason.",
    ),
    Shape(
        s.BackUp,
        "BACKUP WAREHOUSE TO 'folder' [WITH LINKS]",
        "BACKUP WAREHOUSE TO '/backups/shop'",
        "Copy the whole warehouse as it is now, while others work on it; only files that no earlier backup"
        " in the folder has. With LINKS they share the disk where it is the same.",
    ),
    Shape(
        s.RenewIdentity,
        "ALTER WAREHOUSE RENEW IDENTITY",
        "ALTER WAREHOUSE RENEW IDENTITY",
        "Make a copy of a warehouse a warehouse of its own: sources and targets no longer take it for"
        " the original.",
    ),
)

LOOKING = (
    Shape(s.Use, "USE [SCHEMA] x", "USE x", "Where names without a schema are looked up."),
    Shape(
        s.ShowTables,
        "SHOW TABLES [IN x] [LIKE 'pattern']",
        "SHOW TABLES IN x LIKE 'a*'",
        "Tables and views of a schema.",
    ),
    Shape(s.ShowSchemas, "SHOW SCHEMAS [LIKE 'pattern']", "SHOW SCHEMAS", "All schemas."),
    Shape(s.ShowColumns, "SHOW COLUMNS IN t", "SHOW COLUMNS IN t", "The names of the columns."),
    Shape(
        s.ShowCreateTable,
        "SHOW CREATE TABLE t",
        "SHOW CREATE TABLE t",
        "The statement that would make it again.",
    ),
    Shape(s.Describe, "DESCRIBE [TABLE] t", "DESCRIBE t", "Columns, types, comments, and the primary key."),
    Shape(
        s.SetSetting,
        "SET trickle.name = value",
        "SET trickle.auto_compact = false",
        "See [settings](settings.md).",
    ),
    Shape(
        s.ShowSettings,
        "SHOW SETTINGS\nSHOW trickle.name",
        "SHOW SETTINGS",
        "Settings with value, default and meaning.",
    ),
)

SECTIONS = {
    "Queries": QUERIES,
    "Definitions": DEFINITIONS,
    "Stream tables": STREAMS,
    "Sources": SOURCES,
    "Changes of rows": CHANGES,
    "Transactions": TRANSACTIONS,
    "Maintenance": MAINTENANCE,
    "Looking around": LOOKING,
}
SHAPES = tuple(shape for section in SECTIONS.values() for shape in section)
