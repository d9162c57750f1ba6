"""A busy database: transactions at a given rate over many tables, with DDL now and then."""
