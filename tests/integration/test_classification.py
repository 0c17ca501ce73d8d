"""A classifier's run: interrupted or not it ends the same, and the shipped default learns what it is for."""

from pathlib import Path

import pytest
from tiny_runs import TinyProject, assert_same_run, newest_state, rows, sigint, sigterm, stop, update

from translate.config.loading import load_config
from translate.errors import ConfigError
from translate.pipeline import train
from translate.translator import Translator

ROOT = Path(__file__).resolve().parents[2]
LABELLED = ("data.kind=labelled", "model.kind=classifier", "model.positions=learned", "model.max_positions=20")


@pytest.fixture
def tiny_labelled(tmp_path: Path) -> TinyProject:
    """Which of two syllables comes first?"""
    corpus = tmp_path / "labelled"
    corpus.mkdir()
    for split, count in (("train", 240), ("val", 24)):
        words = [("bako", "koba")[(number * 7) % 5 % 2] for number in range(count)]
        lines = [f"{word[:2]}\t{'de ' * (number % 4)}{word}\n" for number, word in enumerate(words)]
        (corpus / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    return TinyProject(corpus, tmp_path)


def test_labels_are_not_judged_as_translations(tiny_labelled: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    for path in tiny_labelled.corpus.iterdir():
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("".join(f"a_label_of_one_word_{line} .\n" for line in lines), encoding="utf-8")
    train(tiny_labelled.config(*LABELLED, "training.max_steps=1"))
    assert "references" not in caplog.text


VARIANTS = {
    "words": (),
    "merges left out": ("text.tokenizer={kind: bpe, vocab_size: 20, dropout: 0.3}", "training.max_epochs=8"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_two_interruptions(name: str, tiny_labelled: TinyProject) -> None:
    overrides = (*LABELLED, *VARIANTS[name])
    plain = train(tiny_labelled.config(*overrides, f"output={tiny_labelled.folder}/uninterrupted"))
    updates = newest_state(plain)[1]["step"]
    assert updates >= 9
    stop(sigterm, update(3), tiny_labelled, *overrides)
    stop(sigint, update(updates // 2), tiny_labelled, *overrides, resume=True)
    run = train(tiny_labelled.config(*overrides), resume=True)
    assert_same_run(run, plain)
    assert max(row["accuracy"] for row in rows(run) if row["kind"] == "validation") > 0.9


@pytest.mark.slow
def test_the_shipped_config_learns_which_language_a_line_is(tmp_path: Path) -> None:
    overrides = (f"output={tmp_path}/run", f"data.cache={tmp_path}/cache", "threads=1", "training.max_epochs=1")
    run = train(load_config(ROOT / "configs/roots/classification.yaml", overrides))
    (validation,) = (row for row in rows(run) if row["kind"] == "validation")
    assert validation["accuracy"] > 0.95
    unseen = ["Eine Frau trinkt Tee.", "A woman is drinking tea."]
    translator = Translator.load(run.model, "cpu")
    assert translator.translate(unseen) == ["de", "en"]
    with pytest.raises(ConfigError, match="predicts labels"):
        translator.log_probabilities(unseen, ["de", "en"])
