"""The source database: a private MariaDB, its binlog and the row changes read from it."""
