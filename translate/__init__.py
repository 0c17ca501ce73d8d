"""Train a transformer on parallel text, translate with it, and score it; or a classifier on labelled text.

The folders in the order of the subject, each using only those before it:

    config/      the settings of a run, read from YAML
    text/        text to token ids, and back
    data/        parallel and labelled text on disk, encoded and put into batches
    model/       the transformer, and the classifier made of its encoder
    decoding/    greedy search, beam search, sampling; how probable given translations are
    training/    loss, optimizer, the loop and its saved states

Small files that any of them may use: errors.py, files.py (written whole or not at all), paths.py, pool.py (work in one
process per core), device.py (where to compute), precision.py (bfloat16 or float32), threads.py (work in several
threads), allocation.py (the memory of tensors), storage.py (tensors in a file).

The files that put them together: evaluation.py (BLEU), accuracy.py (right labels), score_warnings.py (what makes
scores mislead), model_file.py (a trained model), line_warnings.py (what makes its output unreliable), translator.py
(text in, text out), validation.py, runs.py (the folder of a run), scoring.py, resuming.py (how a run goes on),
preparing.py (the text of a run), starting.py (the model with which it begins), pipeline.py (from a config to a trained
model), and commands/ (what the scripts run).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from translate.translator import Translator as Translator

__all__ = ["Translator"]


def __getattr__(name: str) -> Any:
    # Imported on first use, because it brings in PyTorch.
    if name == "Translator":
        from translate.translator import Translator

        return Translator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
