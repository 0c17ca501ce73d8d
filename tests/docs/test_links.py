"""The pages lead somewhere: every file, picture and heading that they link to is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files in this repository that a page's links and pictures lead to, each with the anchor there, or ""."""
    for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            yield page.parent / name if name else page, anchor


def anchors(text: str) -> set[str]:
    """Those of a page's headings as GitHub makes them: small letters, no punctuation, hyphens for spaces.

    A heading that stands there again gets a number.
    """
    found: set[str] = set()
    outside_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6} +(.+?) *$", outside_code, flags=re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = first = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        number = 0
        while anchor in found:
            number += 1
            anchor = f"{first}-{number}"
        found.add(anchor)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    assert [str(file) for file, _ in links(page) if not file.exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings(page: Path) -> None:
    asked = [(file, anchor) for file, anchor in links(page) if anchor]
    lost = [f"{file.name}#{anchor}" for file, anchor in asked if anchor not in anchors(file.read_text("utf-8"))]
    assert lost == []


def test_anchors_are_those_of_github() -> None:
    page = """\
# 3. Why scores are divided by √d
## `data.train`, `data_valid`
## `data` with `kind: labelled`
## Of [a link](there.md), twice – and *no* more
```
# a comment
```
## Ein Übergang
## A GPU
## A GPU
## A GPU
"""
    assert anchors(page) == {
        "3-why-scores-are-divided-by-d",
        "datatrain-data_valid",
        "data-with-kind-labelled",
        "of-a-link-twice--and-no-more",
        "ein-übergang",
        "a-gpu",
        "a-gpu-1",
        "a-gpu-2",
    }


def test_pages_have_links_and_every_picture_is_shown() -> None:
    linked = {file.resolve() for page in PAGES for file, _ in links(page)}
    assert (ROOT / "docs" / "tour.md").is_file()
    assert set((ROOT / "docs" / "pictures").iterdir()) - linked == set()
    assert len(linked) > 20
    assert sum(1 for page in PAGES for _, anchor in links(page) if anchor) > 10
