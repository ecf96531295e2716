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
        "Anything that Spark can query: tables, views and table functions of the warehouse, temporary views,"
        " tables of the Spark session, and files such as parquet.`path`."
        " All tables of the warehouse are read at one snapshot.",
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
        "The table as it was at a point in time.",
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
        "A view of the Spark session that shows the snapshot of this moment; it is not stored.",
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
        "A named query, run whenever it is read. DuckDB does not see it, because its text is Spark SQL.",
    ),
    Shape(
        s.DropView,
        "DROP VIEW [IF EXISTS] v",
        "DROP VIEW v",
        "The view is dropped; the tables that it reads stay.",
    ),
    Shape(
        s.CreateSchema,
        "CREATE SCHEMA [IF NOT EXISTS] x",
        "CREATE SCHEMA x",
        "A schema for tables and views. The default schema is main.",
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
        "Existing rows take the default as it is now, or NULL. No data file is written.",
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
        "The default applies to rows that are inserted later.",
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
        "The new name may be in another schema.",
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
        "Stop its scheduled refreshes, or start them again.",
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
        "Change how it is refreshed, or its query: the new rows replace the old ones in one commit.",
    ),
    Shape(
        s.ExplainStream,
        "EXPLAIN STREAM TABLE s",
        "EXPLAIN STREAM TABLE s",
        "Its nodes, operators and costs, the SQL of every delta, and what the next refresh would do: why, by"
        " which passes, over how many rows, and where it would run.",
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
        "ATTACH SOURCE [IF NOT EXISTS] name TYPE {postgres | delta | iceberg | files | kafka}\n"
        "  OPTIONS (name 'value', …)",
        "ATTACH SOURCE shop TYPE postgres OPTIONS (dsn 'env:SHOP_DSN', tables 'public.*')",
        "Another system whose tables can be read in the warehouse: a PostgreSQL database, Delta Lake or"
        " Iceberg tables, a folder in which files arrive, or the topics of a Kafka cluster."
        " The catalog stores where a password is, never the password itself."
        " See [options](options.md#of-a-source).",
    ),
    Shape(
        s.MirrorTable,
        "CREATE TABLE [IF NOT EXISTS] t FROM SOURCE name.[schema.]table [(column, …)]\n"
        "  [OPTIONS (name 'value', …)]",
        "CREATE TABLE orders FROM SOURCE shop.public.orders",
        "A read-only table that follows a table of the source: read where it is (Delta Lake, Iceberg), or"
        " copied once and then changed by what changes there. See [options](options.md#of-a-mirror).",
    ),
    Shape(
        s.MirrorTables,
        "ALTER SOURCE name ADD TABLES 'schema.*' [INTO schema]",
        "ALTER SOURCE shop ADD TABLES 'public.*'",
        "Create a mirror for every table of the source that matches and has none yet.",
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
        "Bring all mirrors of a source up to date, in one commit. A source serves one copy of a"
        " warehouse; with TAKE OVER it serves this one from now on, and no other.",
    ),
    Shape(
        s.ResyncTable,
        "RESYNC TABLE t",
        "RESYNC TABLE orders",
        "Compare a mirror with its table in the source, with the columns that it has now; only rows that"
        " differ change.",
    ),
    Shape(
        s.DetachSource,
        "DETACH SOURCE [IF EXISTS] name [CASCADE] [FORCE]",
        "DETACH SOURCE shop",
        "Remove everything that spark-trickle created in the source. Mirrors become ordinary tables;"
        " CASCADE drops them, which tables in place need."
        " FORCE forgets a source that cannot be reached.",
    ),
    Shape(
        s.PublishStream,
        "PUBLISH STREAM TABLE s TO SOURCE name [AS schema.table] [OPTIONS (name 'value', …)]",
        "PUBLISH STREAM TABLE revenue TO SOURCE shop AS public.revenue_live",
        "Keep its rows in a table of the source as well; each refresh is one transaction there.",
    ),
    Shape(
        s.RepairPublished,
        "PUBLISH STREAM TABLE s REPAIR",
        "PUBLISH STREAM TABLE revenue REPAIR",
        "Compare the published table with the stream table, and correct the rows that differ.",
    ),
    Shape(
        s.UnpublishStream,
        "UNPUBLISH STREAM TABLE s [{KEEP | DROP} TABLE]",
        "UNPUBLISH STREAM TABLE revenue",
        "Stop publishing. The published table stays as it is for its readers, and can be published again; "
        "DROP TABLE drops it.",
    ),
)

CHANGES = (
    Shape(
        s.Insert,
        "INSERT INTO t [(column, …)] {VALUES (…), … | query}",
        "INSERT INTO t (id) VALUES (1), (2)",
        "Columns that are not named take their default, as does the word DEFAULT in place of a value.",
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
        "Replace all rows by the new ones, in one commit.",
    ),
    Shape(
        s.Update,
        "UPDATE t [AS a] SET column = value, … [FROM u] [WHERE condition]",
        "UPDATE t SET n = u.n FROM u WHERE t.id = u.id",
        "It is an error if several rows of u match one row.",
    ),
    Shape(
        s.Delete,
        "DELETE FROM t [AS a] [USING u] [WHERE condition]",
        "DELETE FROM t WHERE id IN (SELECT id FROM u)",
        "Without a condition, the same as TRUNCATE TABLE.",
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
    Shape(s.Truncate, "TRUNCATE TABLE t", "TRUNCATE TABLE t", "Delete all rows; the change feed shows them."),
)

TRANSACTIONS = (
    Shape(
        s.Begin,
        "BEGIN [TRANSACTION | WORK]\nSTART TRANSACTION",
        "BEGIN",
        "The statements that follow become one commit.",
    ),
    Shape(s.CommitWork, "COMMIT", "COMMIT", "Commit all changes as one snapshot, or none of them."),
    Shape(s.Rollback, "ROLLBACK", "ROLLBACK", "Undo all changes since BEGIN."),
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
        " With DRY RUN, nothing is deleted, and the files are listed with the reasons.",
    ),
    Shape(
        s.BackUp,
        "BACKUP WAREHOUSE TO 'folder' [WITH LINKS]",
        "BACKUP WAREHOUSE TO '/backups/shop'",
        "Copy the whole warehouse as it is now, while others keep working; only files that no earlier backup"
        " in the folder has are copied. WITH LINKS links them instead, if both folders are on one disk.",
    ),
    Shape(
        s.RenewIdentity,
        "ALTER WAREHOUSE RENEW IDENTITY",
        "ALTER WAREHOUSE RENEW IDENTITY",
        "Turn a copy of a warehouse into a warehouse of its own: sources and targets no longer mistake it for"
        " the original.",
    ),
)

LOOKING = (
    Shape(s.Use, "USE [SCHEMA] x", "USE x", "Look up names without a schema in schema x."),
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
        "The statement that creates the table again.",
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
        "The settings with their values, defaults and meanings.",
    ),
)

SECTIONS = {
    "Queries": QUERIES,
    "Definitions": DEFINITIONS,
    "Stream tables": STREAMS,
    "Sources": SOURCES,
    "Changing rows": CHANGES,
    "Transactions": TRANSACTIONS,
    "Maintenance": MAINTENANCE,
    "Inspecting": LOOKING,
}
SHAPES = tuple(shape for section in SECTIONS.values() for shape in section)
