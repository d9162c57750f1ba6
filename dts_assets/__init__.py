"""Change streams of cloud databases, from Kafka messages to lake tables.

The rooms, in the order in which a message passes through them: ``sources`` (where it is read), ``wire`` (what its bytes
mean), ``stages`` (the steps), ``store`` (where it is kept), ``flows`` (plan, read, step, write), ``defs`` (what Dagster
sees). ``model`` is the vocabulary of all of them. See ARCHITECTURE.md.
"""
