"""The workload behind ``examples/shop``: eight hours of a web shop on a real MariaDB, recorded as a capture."""
