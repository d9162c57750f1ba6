"""The database as the judge: its content at a moment, compared with the lake's snapshots row by row."""
