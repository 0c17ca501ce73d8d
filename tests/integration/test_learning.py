"""A task that can be learned is learned, and what is learned can be used."""

import pytest
from tiny_runs import TinyProject, newest_state, rows, sentences, write_split

from translate.model_file import SavedModel
from translate.pipeline import train
from translate.translator import Translator


@pytest.mark.slow
def test_a_task_is_learned_and_the_saved_model_translates_unseen_sentences(tiny: TinyProject) -> None:
    corpus = tiny.folder / "corpus"
    write_split(corpus, "train", *sentences(1500, seed=3))
    write_split(corpus, "val", *sentences(40, seed=4))
    model = ("model.d_model=64", "model.ffn=128", "model.heads=4", "model.dropout=0")
    training = ("training.max_epochs=16", "training.batch.max_tokens=400", "training.schedule.warmup_steps=50")
    config = tiny.config(f"data.root={corpus}", *model, *training, "training.validate_every=80")
    run = train(config)

    validations = [row for row in rows(run) if row["kind"] == "validation"]
    best = max(validations, key=lambda row: (row["bleu"], -row["nll"]))
    assert best["bleu"] > 90
    assert best["accuracy"] > 0.95
    assert SavedModel.load(run.model).about["validation"]["step"] == best["step"] == newest_state(run)[1]["best_step"]

    unseen, references = sentences(50, seed=5)
    for search in ("greedy", "beam"):
        translations = Translator.load(run.model).translate(unseen, search=search)
        exact = sum(a == b for a, b in zip(translations, references, strict=True))
        assert exact >= 45, list(zip(translations, references, strict=True))
