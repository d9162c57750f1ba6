"""The vocabulary of the project: small frozen values, standard library only."""
