"""Docstrings that a stranger can read: how they begin and how long their first sentence is.

Checked are all docstrings of the product, the laboratory, the benchmarks, the scripts and the example: public and private ones,
also of attributes; generated code is left out. Ruff checks the rest (Google's convention, a verb first, what is raised).
To see the faults of one room::

    python tests/house/test_prose.py dts_assets/wire
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("dts_assets", "dts_emulator", "benchmarks", "scripts", "examples")
GENERATED = "dts_assets/protocol"
QUESTION_WORDS = ("What", "Whether", "How", "Where", "Those", "That")
LONGEST = 18


def rooms() -> list[str]:
    """Return each folder of ``dts_assets``, ``dts_assets`` for its modules that lie in no folder, and the other packages."""
    folders = [path for path in (ROOT / "dts_assets").iterdir() if path.is_dir() and any(path.glob("*.py"))]
    found = {str(path.relative_to(ROOT)) for path in folders} - {GENERATED}
    return sorted(found | {package for package in PACKAGES if (ROOT / package).is_dir()})


def modules(room: str) -> list[Path]:
    folder = ROOT / room
    return sorted(folder.glob("*.py") if room == "dts_assets" else folder.rglob("*.py"))


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every string that stands as a statement of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value.strip()


def faults_of(text: str) -> Iterator[str]:
    words = text.split()
    if words and words[0] in QUESTION_WORDS:
        yield f"begins with {words[0]}"
    paragraph = " ".join(text.split("\n\n")[0].split())
    count = len(paragraph.split(". ")[0].split())
    if count > LONGEST:
        yield f"its first sentence has {count} words, more than {LONGEST}"


def faults_in(room: str) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path in modules(room)
        for line, text in docstrings(ast.parse(path.read_text("utf-8")))
        for fault in faults_of(text)
    ]


@pytest.mark.parametrize("room", rooms())
def test_docstrings_begin_with_a_verb_or_a_noun_and_a_short_sentence(room: str) -> None:
    assert not (found := faults_in(room)), "\n".join(found)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("Return the files.", 0),
        ("What a mark adds.", 1),
        ("Whatever a mark adds.", 0),
        (
            " ".join(["word"] * 18)
            + ". And then as many words as you like, up to the end of the paragraph or beyond it.",
            0,
        ),
        (" ".join(["word"] * 19) + ".", 1),
        ("How " + " ".join(["word"] * 18) + ".", 2),
        (" ".join(["word"] * 12) + "\n" + " ".join(["word"] * 12), 1),
        (" ".join(["word"] * 12) + "\n\n" + " ".join(["word"] * 12), 0),
    ],
)
def test_words_are_counted_up_to_the_end_of_the_first_sentence(text: str, faults: int) -> None:
    assert len(list(faults_of(text))) == faults


if __name__ == "__main__":
    for line in (fault for room in sys.argv[1:] for fault in faults_in(room)):
        sys.stdout.write(f"{line}\n")
