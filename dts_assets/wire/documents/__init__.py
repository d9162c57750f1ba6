"""Documents of MongoDB: the syntax of its shell, Extended JSON, and updates of single fields."""
