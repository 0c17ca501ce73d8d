"""Text flows one way: each stage uses only those before it, and each outside library has one place that wraps it."""

import ast
import graphlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import translate

ROOT = Path(__file__).resolve().parents[1]

# From the first to the last; a name is a folder or a file of the package. A stage uses itself and those before it.
STAGES = (
    "errors",
    "system",
    "config",
    "text",
    "data",
    "model",
    "decoding",
    "distributed",
    "optimization",
    "training",
    "model_file",
    "line_warnings",
    "translator",
    "evaluation",
    "runs",
    "pipeline",
    "commands",
)

# PyTorch and NumPy are the language that tensors are written in; everything else from outside is wrapped.
EVERYWHERE = {"torch", "numpy"}
STANDARD = sys.stdlib_module_names | {"compression"}  # of Python, the latter from 3.14 on
SECTIONS = ("data", "text", "model", "training", "decoding")
WRAPPED_IN = {
    "backports": {"data/lines"},
    "filelock": {"system/files"},
    "pydantic": {f"config/{name}" for name in (*SECTIONS, "section", "schema", "keys", "problems", "advice")},
    "pydantic_core": {"config/problems"},
    "sacrebleu": {"evaluation/bleu"},
    "safetensors": {"system/storage"},
    "spacy": {"text/words"},
    "tokenizers": {"text/pieces"},
    "torchtext": {"text/vocabulary"},
    "tqdm": {"training/tracking", "commands/output"},
    "yaml": {"config/yaml_source"},
}
WITHOUT_TORCH = {
    "errors",
    "system/cgroups",
    "system/files",
    "system/interrupt",
    "system/paths",
    "system/pool",
    "system/terminal",
    "config",
    "text",
    "evaluation/reports",
}


def modules() -> dict[str, Path]:
    """The files of the package by their path in it, without suffix; its own `__init__` is left out."""
    package = ROOT / "translate"
    files = (file for file in package.rglob("*.py") if file != package / "__init__.py")
    return {file.relative_to(package).with_suffix("").as_posix(): file for file in files}


MODULES = modules()


@cache
def imported(module: str) -> frozenset[str]:
    """Dotted names of all modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name for name in below if own(name)} or {str(node.module)}
    return frozenset(names)


def own(name: str) -> str | None:
    """The file that a dotted name stands for, if it is one of ours: `config/schema` for `translate.config.schema`."""
    path = name.removeprefix("translate.").replace(".", "/")
    return next((module for module in (path, f"{path}/__init__") if name != path and module in MODULES), None)


def stage(module: str) -> str:
    return module.split("/")[0]


def used_by(module: str) -> set[str]:
    """The files of ours that a file imports."""
    return {file for name in imported(module) if (file := own(name))}


def test_the_package_of_this_checkout_is_tested() -> None:
    """And not that of another clone, for which the environment was made."""
    assert translate.__file__ == str(ROOT / "translate" / "__init__.py")


def test_every_file_has_its_stage_and_every_stage_its_files() -> None:
    assert {stage(module) for module in MODULES} == set(STAGES)


@pytest.mark.parametrize("folder", ["", *sorted({stage(module) for module in MODULES if "/" in module})])
def test_the_docstring_of_a_folder_names_its_files(folder: str) -> None:
    package = ROOT / "translate" / folder
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    names = [file.name for file in package.glob("[!_]*.py")]
    assert names
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_back(module: str) -> None:
    place = STAGES.index(stage(module))
    assert sorted(used for used in used_by(module) if STAGES.index(stage(used)) > place) == []


@pytest.mark.parametrize("module", MODULES)
def test_every_import_of_ours_is_a_file(module: str) -> None:
    # Names are imported from where they are defined, so that the graph says what depends on what.
    ours = {name for name in imported(module) if name.split(".")[0] == "translate"}
    assert sorted(name for name in ours if own(name) is None) == []


def test_no_two_files_need_each_other() -> None:
    graph = {module: used_by(module) for module in MODULES}
    assert sum(map(len, graph.values())) > len(MODULES)
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names the circle.


def test_outside_libraries_are_used_where_they_are_wrapped() -> None:
    users: dict[str, set[str]] = {}
    for module in MODULES:
        for library in {name.split(".")[0] for name in imported(module)} - {"translate"} - EVERYWHERE:
            if library not in STANDARD:
                users.setdefault(library, set()).add(module)
    assert users == WRAPPED_IN


def test_processes_talk_in_one_place() -> None:
    users = {module for module in MODULES if any(name.startswith("torch.distributed") for name in imported(module))}
    assert {stage(module) for module in users} == {"distributed"}


def test_layers_and_algorithms_know_no_config() -> None:
    readers = {module for module in MODULES if any(stage(used) == "config" for used in used_by(module))}
    assert {module for module in readers if stage(module) == "model"} == {"model/build"}
    searching = {module for module in readers if stage(module) == "decoding"}
    assert searching == {"decoding/search", "decoding/limits", "decoding/batch_size", "decoding/teacher_forcing"}


@pytest.mark.parametrize("module", [module for module in MODULES if {module, stage(module)} & WITHOUT_TORCH])
def test_text_knows_no_tensors(module: str) -> None:
    assert "torch" not in {name.split(".")[0] for name in imported(module)}


def letters_of_dimensions(tree: ast.Module) -> set[str]:
    """The letters at the ends of names, as in `keys_BHSK`; a digit is a size."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return {
        letter
        for name in names
        if (found := re.fullmatch("[a-z0-9_]+_([A-Z0-9]+)", name))
        for letter in found[1]
        if letter.isalpha()
    }


@pytest.mark.parametrize("module", [module for module in MODULES if stage(module) in {"model", "decoding"}])
def test_letters_of_dimensions_are_explained(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    legend = ast.get_docstring(tree) or ""
    assert [letter for letter in letters_of_dimensions(tree) if not re.search(rf"\b{letter}\b", legend)] == []


def test_letters_are_found() -> None:
    assert letters_of_dimensions(ast.parse("def f(x_BTD, y): keys_S2 = x_BTD")) == set("BTDS")


@pytest.mark.parametrize(
    "statement",
    [
        "import translate",
        # The commands set up OpenMP and the streams first, and answer --help at once.
        "from translate.commands import evaluate, split, train, translate",
        "from translate.config.loading import load_config",
    ],
)
def test_what_is_light_stays_light(statement: str) -> None:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "translate" in loaded
    assert loaded & {"torch", "numpy", "spacy", "tokenizers", "torchtext", "sacrebleu"} == set()
