"""The notebook that docs/notebook.py makes of the tour."""

import doctest
import importlib.util
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_notebook_has_all_of_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specification = importlib.util.spec_from_file_location("notebook", DOCS / "notebook.py")
    assert specification is not None
    assert specification.loader is not None
    notebook = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(notebook)
    monkeypatch.setattr(notebook, "PAGE", tmp_path / "tour.md")
    page = (DOCS / "tour.md").read_text(encoding="utf-8")
    (tmp_path / "tour.md").write_text(page, encoding="utf-8")
    notebook.main()

    made = json.loads((tmp_path / "tour.ipynb").read_text(encoding="utf-8"))
    first, *code = [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]
    compile(first, "the first cell", "exec")
    examples = doctest.DocTestParser().get_examples(page)
    assert "".join(f"{source}\n" for source in code) == "".join(example.source for example in examples)

    text = [cell["source"] for cell in made["cells"] if cell["cell_type"] == "markdown"]
    assert text[0].startswith("# A tour of the transformer")
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert [line for part in text for line in part.splitlines() if line.startswith("## ")] == headings
    assert not [part for part in text if ">>> " in part and "```python" not in part]
