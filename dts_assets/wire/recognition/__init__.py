"""The recognition of formats: which registered format the messages of a topic look like, and why."""
