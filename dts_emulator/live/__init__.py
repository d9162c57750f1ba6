"""A live pipeline on one machine: its processes, and a meter of how fresh its tables are."""
