"""Documents name what is there: paths, modules and links exist, and the glossary is short and in order.

``docs/decisions`` is history and is left out.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
PACKAGES = ("dts_assets", "dts_emulator")
DOCUMENTS = sorted([*HOUSE.glob("*.md"), *(HOUSE / "docs").glob("*.md"), *HOUSE.glob("[!.]*/README.md")])
GLOSSARY = HOUSE / "docs" / "glossary.md"

MADE_BY_RUNNING = {"dagster_home/spark.log", "build/test-all.json"}
"""Paths that documents name and that are there only after something has run."""

LAKE = "lake"
"""A folder that `make demo` makes: what documents name in it is not of the repository."""

MOST_WORDS = 40
LONGEST = 18

CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PATH = re.compile(r"[\w*][\w.*-]*(/[\w.*-]+)*/?")
DOTTED = re.compile(rf"(?<![\w./-])(?:{'|'.join(PACKAGES)}|benchmarks|examples)(?:\.\w+)+")
LINK = re.compile(r"\]\(([^)\s]+)\)")
TERM = re.compile(r"^### (.+)\n((?:.+\n)+)", re.M)


def name_of(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()


def paths_in(text: str) -> set[str]:
    """Words in backquotes that look like a path of the repository, with the name behind a colon: ``flows/raw.py:make_raw``."""
    top = {path.name for path in HOUSE.iterdir() if path.is_dir()} - {LAKE}
    rooms = {path.name for package in PACKAGES for path in (HOUSE / package).glob("*") if path.is_dir()}
    found = set()
    for word in CODE.findall(text):
        path, _, _ = word.partition(":")
        if PATH.fullmatch(path) and (path.endswith(".py") or ("/" in path and path.split("/")[0] in top | rooms)):
            found.add(word)
    return found


def is_there(word: str) -> bool:
    path, _, name = word.partition(":")
    places = [path, *(f"{package}/{path}" for package in PACKAGES)]
    if "/" not in path:
        places += [f"{package}/**/{path}" for package in (*PACKAGES, "tests", "benchmarks", "examples", "scripts")]
    files = [file for place in places for file in HOUSE.glob(place.rstrip("/"))]
    defined = re.compile(rf"^\s*(?:def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\b.*=", re.M)
    return path in MADE_BY_RUNNING or any(not name or defined.search(file.read_text("utf-8")) for file in files)


def entry_point_groups() -> set[str]:
    return set(tomllib.loads((HOUSE / "pyproject.toml").read_text("utf-8"))["project"].get("entry-points", {}))


def is_module(dotted: str) -> bool:
    """A module, or a module and a name that it defines."""
    parts = dotted.split(".")
    whole, above = HOUSE.joinpath(*parts), HOUSE.joinpath(*parts[:-1])
    if whole.is_dir() or whole.with_suffix(".py").is_file():
        return True
    module = above.with_suffix(".py") if above.with_suffix(".py").is_file() else above / "__init__.py"
    return module.is_file() and re.search(rf"\b{parts[-1]}\b", module.read_text("utf-8")) is not None


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_paths_that_a_document_names_exist(document: Path) -> None:
    assert {word for word in paths_in(document.read_text("utf-8")) if not is_there(word)} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_modules_that_a_document_names_exist(document: Path) -> None:
    named = set(DOTTED.findall(document.read_text("utf-8"))) - entry_point_groups()
    assert {dotted for dotted in named if not is_module(dotted)} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_of_a_document_lead_somewhere(document: Path) -> None:
    lost = set()
    for link in LINK.findall(document.read_text("utf-8")):
        if not link.startswith(("http://", "https://")):
            path, _, anchor = link.partition("#")
            target = (document.parent / path).resolve() if path else document
            if not target.exists() or (anchor and anchor not in anchors(target)):
                lost.add(link)
    assert lost == set()


@pytest.mark.parametrize(
    ("word", "there"),
    [
        ("dts_assets/flows/", True),
        ("flows/raw.py", True),
        ("flows/*.py", True),
        ("planning/gone.py", False),
        ("tests/house/test_documents.py:is_there", True),
        ("tests/house/test_documents.py:is_gone", False),
        ("gone.py", False),
    ],
)
def test_paths_are_found_and_missed(word: str, *, there: bool) -> None:
    assert paths_in(f"see `{word}` for it") == {word}
    assert is_there(word) is there


@pytest.mark.parametrize("text", ["`shop/entries`", "`p03|2026-01-05`", "`a b`", "flows/raw.py", "`--config`"])
def test_what_is_no_path_is_passed_over(text: str) -> None:
    assert paths_in(text) == set()


def terms() -> dict[str, str]:
    return {term: " ".join(text.split()) for term, text in TERM.findall(GLOSSARY.read_text("utf-8"))}


def test_the_glossary_is_short_and_alphabetical() -> None:
    headings = re.findall(r"^### (.+)$", GLOSSARY.read_text("utf-8"), re.M)
    assert list(terms()) == headings == sorted(set(headings), key=str.casefold)
    assert len(headings) <= MOST_WORDS


def test_each_word_of_the_glossary_has_one_short_sentence() -> None:
    assert {term for term, text in terms().items() if len(text.split()) > LONGEST or ". " in text} == set()
    assert {term for term, text in terms().items() if not text.endswith(".")} == set()


def test_readers_are_led_to_the_glossary() -> None:
    for name in ("README.md", "ARCHITECTURE.md"):
        assert "docs/glossary.md" in LINK.findall((HOUSE / name).read_text("utf-8"))


def test_decisions_have_numbers_of_their_own() -> None:
    records = sorted((HOUSE / "docs" / "decisions").glob("[0-9]*.md"))
    numbers = [int(path.name.split("-")[0]) for path in records]
    assert numbers == list(range(len(records)))
    assert all(path.read_text("utf-8").startswith(f"# {path.name.split('-')[0]}. ") for path in records)
