"""The words of a MySQL-family statement: comments gone, version comments read, quoted names unquoted.

The rules are in the MySQL manual, "Comments" and "Schema Object Names". The work is our own rather than a parser's:
``/*!40000 ... */`` is code to the server and a comment to every parser at hand, and ``--`` begins a comment only before a space.
A parser that takes the rest of a statement for a comment would lose its effects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

_NEWEST_OF_ALL = 50699
"""The newest version up to which MySQL and MariaDB agree on which version comments they carry out."""

MOST_CHARACTERS = 1 << 20
MOST_TOKENS = 200_000
"""Bounds of a statement that is read.

A table of 4,096 columns and 8,192 partitions has 140,000 tokens, and an enum of 65,535 labels as many. Each token takes some
hundred bytes and a microsecond or two, so a text of megabytes would take gigabytes.
"""

# Spaces are those of a server, which takes U+00A0 for a letter. Possessive, so that a text of any length is read once and takes
# no memory for ways back.
_PIECES = re.compile(
    r"""(?P<space>[\t-\r\x20]++|--(?=[\x00-\x20\x7f]|$)[^\n]*+|\#[^\n]*+)
    |(?P<opens>/\*M?!(?P<version>\d{5,6})?)
    |(?P<comment>/\*(?:[^*]++|\*(?!/))*+\*/)
    |(?P<endless>/\*)
    |(?P<closes>\*/)
    |(?P<name>`(?:[^`]++|``)*+`)
    |(?P<string>'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+")
    |(?P<word>[0-9A-Za-z_$\u0080-\U0010ffff]++)
    |(?P<mark>[^`'"])""",
    re.X | re.S,
)
_VERSIONS = ("/*!", "/*M!")


def words(text: str) -> frozenset[str]:
    """Return the words of a text: a vocabulary as one reads it."""
    return frozenset(text.split())


class Unreadable(Exception):
    """A statement that is not understood; it never leaves the reading of statements."""


class TokenKind(Enum):
    """The kind of a token."""

    WORD = "word"
    NAME = "name"
    STRING = "string"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a statement: its ``text`` and the ``name`` it may be.

    ``spaced`` says that a space stands before it.
    """

    kind: TokenKind
    text: str
    spaced: bool

    @property
    def keyword(self) -> str:
        """The word in capitals; empty for all else, so that a quoted name is never a keyword."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    @property
    def name(self) -> str | None:
        """The name that this token may be.

        ``"x"`` stands in the place of a name only with ANSI_QUOTES, and is a name then.
        """
        if self.kind is TokenKind.WORD:
            return self.text
        if self.kind is TokenKind.NAME:
            return self.text[1:-1].replace("``", "`")
        if self.kind is TokenKind.STRING and self.text.startswith('"'):
            return self.text[1:-1].replace('""', '"')
        return None


Runs = Callable[[bool, int], bool]
"""Tells whether a server carries out a version comment.

It is asked whether the comment begins with ``/*M!``, and for the comment's version, 0 if it has none.
"""


def readings(sql: str, runs: Runs | None = None) -> Iterator[list[Token]]:
    """Yield the tokens of a statement for each way in which servers may read its version comments.

    There are two ways, with and without newer code; there is one if ``runs`` says which code a server carries out.

    Raises:
        Unreadable: a quote or a comment has no end, or the statement is too long.
    """
    if len(sql) > MOST_CHARACTERS:
        raise Unreadable("too long")
    if runs is not None:
        yield _tokens(sql, runs)
        return
    newer = _tokens(sql, lambda is_mariadb, version: True)
    yield newer
    if any(begin in sql for begin in _VERSIONS):
        older = _tokens(sql, lambda is_mariadb, version: version <= _NEWEST_OF_ALL and not is_mariadb)
        if older != newer:
            yield older


def _tokens(sql: str, runs: Runs) -> list[Token]:
    found: list[Token] = []
    spaced, inside, passed_over, place = False, False, False, 0
    while place < len(sql):
        piece = _PIECES.match(sql, place)
        if piece is None:
            raise Unreadable("a quote without its end")
        if len(found) == MOST_TOKENS:
            raise Unreadable("too many tokens")
        place = piece.end()
        group = piece.lastgroup if piece.lastgroup != "version" else "opens"
        if group == "endless":
            raise Unreadable("a comment without its end")
        if group == "opens":
            if inside:
                raise Unreadable("a version comment in another")
            is_mariadb, version = piece.group().startswith("/*M"), int(piece["version"] or 0)
            inside, spaced, passed_over = True, True, not runs(is_mariadb, version)
        elif group == "closes":
            if not inside:
                raise Unreadable("the end of a comment without its beginning")
            inside, spaced, passed_over = False, True, False
        elif group in ("space", "comment"):
            spaced = True
        elif not passed_over:
            found.append(Token(TokenKind(group), piece.group(), spaced))
            spaced = False
    if inside:
        raise Unreadable("a comment without its end")
    return found


def source_text(tokens: Sequence[Token]) -> str:
    """Return tokens as text again, spaced as they were."""
    return "".join((" " if token.spaced else "") + token.text for token in tokens).strip()


def split(tokens: Sequence[Token], mark: str) -> list[list[Token]]:
    """Return the parts between marks that stand in no parentheses.

    Raises:
        Unreadable: the parentheses do not match.
    """
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth < 0:
            raise Unreadable("a parenthesis without its beginning")
        if token.text == mark and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    if depth:
        raise Unreadable("a parenthesis without its end")
    return parts


class Reader:
    """A reader that takes tokens from the front and raises :class:`Unreadable` at the unexpected."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = list(tokens)
        self._place = 0

    @property
    def rest(self) -> list[Token]:
        """The tokens that were not taken yet: a copy, which costs as many steps."""
        return self._tokens[self._place :]

    @property
    def next(self) -> Token | None:
        """The next token, which is not taken; None at the end."""
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def keywords(self, count: int) -> tuple[str, ...]:
        """Return the next tokens as keywords, without taking them; empty where there is no word."""
        ahead = self._tokens[self._place : self._place + count]
        return tuple(token.keyword for token in ahead) + ("",) * (count - len(ahead))

    def take(self) -> Token:
        """Take the next token.

        Raises:
            Unreadable: there is none.
        """
        if self._place >= len(self._tokens):
            raise Unreadable("the statement ends early")
        self._place += 1
        return self._tokens[self._place - 1]

    def takes(self, *words: str) -> bool:
        """Take these words if they are next: keywords in capitals, or marks."""
        ahead = self._tokens[self._place : self._place + len(words)]
        if [token.keyword or token.text for token in ahead] != list(words):
            return False
        self._place += len(words)
        return True

    def takes_one_of(self, *words: str) -> str | None:
        """Take one of these keywords if it is next, and return it."""
        return next((word for word in words if self.takes(word)), None)

    def name(self) -> str:
        """Take the next token as a name.

        Raises:
            Unreadable: it is no name.
        """
        name = self.take().name
        if not name:
            raise Unreadable("a name is missing")
        return name

    def parenthesized(self) -> list[Token]:
        """Take the parentheses that come next, and return the tokens in them.

        Raises:
            Unreadable: no parentheses come next.
        """
        if not self.takes("("):
            raise Unreadable("a parenthesis is missing")
        depth = 1
        inner: list[Token] = []
        while True:
            token = self.take()
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0:
                return inner
            inner.append(token)

    def end(self) -> None:
        """Check that no token is left.

        Raises:
            Unreadable: more follows.
        """
        if self.next is not None:
            raise Unreadable("more than was expected")
