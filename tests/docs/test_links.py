"""The pages lead somewhere: every file and picture that they link to is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


def links(page: Path) -> list[str]:
    """The targets of a page's links and pictures inside this repository, without the place on their page."""
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    return [target for target in targets if "://" not in target]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


def test_pages_have_links_and_every_picture_is_shown() -> None:
    linked = {(page.parent / target).resolve() for page in PAGES for target in links(page)}
    assert (ROOT / "docs" / "tour.md").is_file()
    assert set((ROOT / "docs" / "pictures").iterdir()) - linked == set()
    assert len(linked) > 20
