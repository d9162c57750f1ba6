"""The source database in the configuration."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qsl

from pydantic import AfterValidator, Field, SecretStr

from dts_assets.model.database_places import DatabasePlace, OptionMistake, database_place
from dts_assets.settings.places import Part
from dts_assets.settings.values import VALUE, mistake


def _known_url(url: str) -> str:
    if {"user", "password"} & {name.lower() for name, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True)}:
        raise mistake("the URL has a user or a password", "write user: and password: beside url:")
    try:
        database_place(url, user="", password="")
    except OptionMistake as option:
        raise mistake(option.what, option.fix) from None
    except ValueError:
        raise mistake(
            f"{VALUE} is no URL of a MySQL or MariaDB server",
            "write jdbc:mysql://host:3306/ or jdbc:mariadb://host:3306/",
        ) from None
    return url


class Jdbc(Part):
    """The address of a database, and the account of a reader."""

    url: Annotated[str, AfterValidator(_known_url)] = Field(
        description="jdbc:mysql://host:3306/ or jdbc:mariadb://host/."
    )
    user: str = Field(min_length=1, description="An account that may SELECT, and REPLICATION CLIENT.")
    password: SecretStr | None = Field(None, description="The account's password, as ${NAME} of the environment.")

    @property
    def place(self) -> DatabasePlace:
        """The server with its account."""
        password = "" if self.password is None else self.password.get_secret_value()
        return database_place(self.url, user=self.user, password=password)

    @property
    def options(self) -> str:
        """The options behind the address, for a driver of JDBC: ``sslMode=verify-full``."""
        return "&".join(f"{name}={value}" for name, value in self.place.options)


class SourceDatabase(Part):
    """The database that the messages come from, for the look at its settings alone."""

    jdbc: Jdbc = Field(description="Where the source database is reached.")
