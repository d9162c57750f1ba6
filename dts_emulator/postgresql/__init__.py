"""A real PostgreSQL and what its logical decoding tells of row changes, as the plugin ``test_decoding`` prints it."""
