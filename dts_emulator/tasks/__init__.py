"""The emulated tasks: a recording of a server's binlog, or a process that follows a live server."""
