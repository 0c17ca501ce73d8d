"""Train a transformer on parallel text, translate with it, and score it; or a classifier on labelled text.

The folders in the order of the subject, each using only those before it:

    system/        files, memory, cores and devices
    config/        the settings of a run, read from YAML
    text/          text to token ids, and back
    data/          parallel and labelled text on disk, encoded and put into batches
    model/         the transformer, and the classifier made of its encoder
    decoding/      greedy search, beam search, sampling; how probable given translations are
    distributed/   several processes that train one model
    optimization/  from a batch to new weights: loss, gradient, optimizer, schedule
    training/      the loop around it, and its saved states
    evaluation/    BLEU and accuracy, during training and of saved models
    runs/          the folders of runs, and what a run begins with
    commands/      what the scripts run

Beside them: errors.py, before all; model_file.py (a trained model), line_warnings.py (what makes the output for a line
unreliable) and translator.py (text in, text out), which come after training/; and pipeline.py (from a config to a
trained model), after runs/.
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
