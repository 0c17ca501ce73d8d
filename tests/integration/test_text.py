"""What a run makes of its text: what it reads, mixes, filters, warns of and downloads."""

import logging
import re
import sys
from pathlib import Path

import pytest
from tiny_runs import TinyProject, calls_of, newest_state, sentences, write_split

from translate.config.loading import load_config
from translate.data import corpora, sides
from translate.data.batching import BatchPlan
from translate.data.cache import CorpusCache
from translate.data.corpora import ParallelCorpora
from translate.data.splits import open_split
from translate.errors import CheckpointError, DataError
from translate.evaluation import validation
from translate.evaluation.validation import Validator
from translate.model_file import SavedModel
from translate.pipeline import train
from translate.text.words import _spacy_tokenizer
from translate.training.trainer import Trainer


def test_what_is_too_large_for_test_sets_is_not_encoded_ahead(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = tiny.folder / "corpus"
    for split, count in {"train": 20, "val": 5, "crawl": 50, "part": 30, "test": 5, "tests": 6}.items():
        write_split(corpus, split, *sentences(count, seed=count))
    sizes = {split: sum(path.stat().st_size for path in corpus.glob(f"{split}.*")) for split in ("part", "test")}
    monkeypatch.setattr(
        corpora, "MAX_BYTES_OF_TEST_SETS", sum(sizes.values())
    )  # enough for "part", but not beside both
    config = tiny.config(f"data.root={corpus}", f"data.cache={tiny.folder}/cache", "training.max_steps=1")
    encoded = calls_of(monkeypatch, CorpusCache, "dataset", lambda self, codecs, text: text.name)
    train(config)
    assert sorted(encoded) == ["test", "tests", "train", "val"]


def test_files_of_the_training_text_are_not_encoded_once_more_as_splits(tiny: TinyProject) -> None:
    corpus = tiny.folder / "corpus"
    for split in ("part1", "part2", "part3", "val", "test"):
        write_split(corpus, split, *sentences(10, seed=len(split) + ord(split[-1])))
    files = f"data.train={{source: {corpus}/part*.de, target: {corpus}/part*.en}}"
    train(tiny.config(f"data.root={corpus}", files, f"data.cache={tiny.folder}/cache", "training.max_steps=1"))
    assert len(list((tiny.folder / "cache").glob("text-*.json"))) == 3  # the parts together, val and test


def test_a_missing_validation_file_is_noticed_before_training_text_is_read(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ParallelCorpora, "open_train", pytest.fail)
    for name in ("absent.de", "absent*.de"):
        with pytest.raises(DataError, match="absent"):
            train(tiny.config(f"data.valid={{source: {name}, target: {tiny.corpus}/val.en}}"))


def test_other_splits_wait_for_a_library_that_is_missing(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = tiny.folder / "corpus"
    for split in ("train", "val"):
        write_split(corpus, split, *sentences(10, seed=1))
    settings = f"data.root={corpus}", f"data.cache={tiny.folder}/cache", "training.max_steps=1"
    train(tiny.config(*settings))
    write_split(corpus, "test", *sentences(10, seed=2))  # which is not in the cache
    _spacy_tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "spacy", None)
    assert train(tiny.config(*settings), overwrite=True).model.is_file()


def test_bleu_without_case_is_called_so(tiny: TinyProject, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = sentences(20, seed=1)
    corpus = tiny.folder / "corpus"
    for split in ("train", "val"):
        write_split(corpus, split, source, [line.capitalize() for line in target])
    for lowercase, name in (False, "BLEU"), (True, "BLEU (lower-cased)"):
        settings = f"text.tokenizer.lowercase={lowercase}".lower()
        train(tiny.config(f"data.root={corpus}", "training.max_steps=1", settings), overwrite=True)
        assert re.search(rf"validation {re.escape(name)} \d", capsys.readouterr().err)


@pytest.mark.parametrize("shifted", ["train", "val"])
def test_misaligned_lines_are_warned_of(
    shifted: str, tiny: TinyProject, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "STRETCH_LINES", 20)
    monkeypatch.setattr(sides, "MIN_PAIRS", 20)
    corpus, words = tiny.folder / "corpus", [4, 9] * 20
    for split in ("train", "val"):
        target = [*words[1:], 4] if split == shifted else words
        write_split(corpus, split, ["bako " * count for count in words], ["koba " * count for count in target])
    train(tiny.config(f"data.root={corpus}", "training.max_steps=1"))
    warned = [message.split(",")[0] for message in caplog.messages if "misaligned" in message]
    assert warned == [f"{shifted}: from line 1 to line 20"]


@pytest.mark.parametrize("kind", ["bpe, vocab_size: 60, truecase: true", "word"])
@pytest.mark.parametrize("joint", ["true", "false"])
def test_both_sides_may_be_of_one_language(kind: str, joint: str, tiny: TinyProject) -> None:
    files = {
        split: f"{{source: {tiny.corpus}/{split}.de, target: {tiny.corpus}/{split}.en}}" for split in ("train", "val")
    }
    run = train(
        tiny.config(
            *("data.source=en", f"data.train={files['train']}", f"data.valid={files['val']}", "training.max_steps=1"),
            *(f"text.tokenizer={{kind: {kind}}}", f"text.joint_vocabulary={joint}"),
        )
    )
    saved = SavedModel.load(run.model)
    assert saved.source.language == saved.target.language == "en"
    assert saved.source.composes
    assert not saved.target.composes
    assert (saved.source.vocabulary == saved.target.vocabulary) == (joint == "true")
    with pytest.raises(DataError, match=r"Source and target language are both 'en', so both files of 'val' would"):
        open_split(tiny.corpus, "val", "en", "en")


def test_translations_may_be_as_long_as_training_text_says(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    source, target = sentences(100, seed=1)
    corpus = tiny.folder / "corpus"
    odd = ["a"] * 10, ["a " * 150] * 10  # Not trained on, and so of no account.
    write_split(corpus, "train", source + odd[0], [f"{line} " * 9 for line in target] + odd[1])
    write_split(corpus, "val", source[:5], target[:5])
    asked = (f"data.root={corpus}", "data.filter.max_ratio=20", "training.max_steps=1", "decoding.max_extra=2")
    run = train(tiny.config(*asked, "decoding.max_ratio=null"))
    learned = SavedModel.load(run.model).config.decoding.max_ratio
    assert learned is not None
    assert 12 < learned < 13.5  # 9 times as many words, half as many again, less what max_extra gives
    assert f"decoding.max_ratio set to {learned:g}: training pairs have many target tokens" in caplog.text
    assert load_config(run.config).decoding.max_ratio is None  # left open to a config that extends it, for other text
    assert train(tiny.config(*asked, "decoding.max_ratio=null"), resume=True) == run
    run = train(tiny.config(*asked, "decoding.max_ratio=1.5"), overwrite=True)
    assert SavedModel.load(run.model).config.decoding.max_ratio == 1.5
    caplog.clear()
    run = train(tiny.config("training.max_steps=1", "decoding.max_ratio=null"), overwrite=True)
    assert SavedModel.load(run.model).config.decoding.max_ratio == 2
    assert "decoding.max_ratio" not in caplog.text  # 2 is nothing unusual


def test_training_text_that_was_tokenized_is_noticed_even_if_validation_text_is_raw(
    tiny: TinyProject, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = sentences(240, seed=1)
    write_split(tiny.folder / "moses", "train", source, [f"{line} ." for line in target])
    write_split(tiny.folder / "moses", "val", *sentences(24, seed=2))
    train(tiny.config(f"data.root={tiny.folder}/moses", "training.max_steps=1"))
    assert "train: 240 of 240 references look tokenized (a space before the period, " in caplog.text


def test_pairs_that_exceed_a_batch_are_counted(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    corpus = tiny.folder / "corpus"
    short, long = "a b c", "a b c d e f g"
    for split in ("train", "val"):
        write_split(corpus, split, [*[short] * 5, long, short], [*[short] * 5, long, long])
    train(tiny.config(f"data.root={corpus}", "training.batch.max_tokens=7", "training.max_steps=1"))
    assert (
        "train: pairs longer than training.batch.max_tokens (7, with the end token), each in a batch of its own: 2; "
        "data.filter.max_tokens=6 drops them"
    ) in caplog.messages
    caplog.clear()
    for setting in (
        ("training.batch.max_tokens=8",),
        ("training.batch.max_tokens=7", "data.filter.max_tokens=6"),
    ):
        train(tiny.config(f"data.root={corpus}", *setting, "training.max_steps=1"), overwrite=True)
        assert "in a batch of its own" not in caplog.text
    train(tiny.config(f"data.root={corpus}", "training.batch.max_tokens=1", "training.max_steps=1"), overwrite=True)
    assert "training.batch.max_tokens (1, with the end token), each in a batch of its own: 7; raise it" in caplog.text


def test_updates_and_padding_are_told_of(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    corpus, lines = tiny.folder / "corpus", ["a", "a b c"] * 2
    for split in ("train", "val"):
        write_split(corpus, split, lines, lines)
    train(tiny.config(f"data.root={corpus}", "training.max_steps=1"))
    assert "train: updates per epoch: 1, padding: 25.0%" in caplog.messages


def test_unknown_validation_text_is_told_of(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    source, target = sentences(100, seed=1)
    corpus = tiny.folder / "corpus"
    write_split(corpus, "train", source, target)
    write_split(corpus, "val", ["x y", *source[:9]], target[:10])
    train(tiny.config(f"data.root={corpus}", "training.max_steps=1"))
    assert re.search(r"val: \d+\.\d% of the source tokens are out of vocabulary", caplog.text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{joint_vocabulary: true}", r"a joint vocabulary of \d+"),
        ("{joint_vocabulary: true, target_min_freq: 24}", r"a joint vocabulary of \d+, \d+ of them in en"),
        ("{}", r"vocabularies of \d+ \(de\) and \d+ \(en\)"),
    ],
)
def test_whether_languages_share_a_vocabulary_is_said(
    text: str, told: str, tiny: TinyProject, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "translate")
    train(tiny.config(f"text={text}", "training.max_steps=1"))
    said = rf"model: [\d,]+ parameters, {told}; training on cpu, 1 CPU thread\(s\), in float32"
    assert any(re.fullmatch(said, message) for message in caplog.messages)


def test_validation_text_without_spaces_is_warned_of(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    corpus, warning = tiny.folder / "corpus", "most references have no spaces, but BLEU splits words at spaces"
    for apart in (" ", ""):
        for seed, split in enumerate(("train", "val")):
            source, target = sentences(20, seed)
            write_split(corpus, split, source, [(line + " . " + line).replace(" ", apart) for line in target])
        train(tiny.config("training.max_steps=1", f"data.root={corpus}"), overwrite=True)
        assert (warning in caplog.text) == (apart == "")


def test_validation_text_in_a_language_without_spaces_is_as_it_should_be(
    tiny: TinyProject, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = tiny.folder / "corpus"
    source, target = sentences(20, seed=1)
    write_split(corpus, "all", source, ["".join(line.split() * 3) for line in target])
    named = f"{{source: {corpus}/all.de, target: {corpus}/all.en}}"
    languages = ("data.target=ja", "text.tokenizer.kind=char", f"data.train={named}", f"data.valid={named}")
    train(tiny.config(*languages, "training.max_steps=1"))
    assert "references have no spaces" not in caplog.text


def test_blank_references_for_validation_are_warned_of(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    corpus = tiny.folder / "corpus"
    source, target = sentences(20, seed=1)
    write_split(corpus, "train", source, target)
    write_split(corpus, "val", source, target[:10] + [" "] * 3 + target[:7])
    train(tiny.config("training.max_steps=1", f"data.root={corpus}"))
    assert "val: 3 of 20 sentences have no reference, which changes the scores" in caplog.messages


def test_sources_that_validations_do_not_read_to_the_end_are_warned_of(
    tiny: TinyProject, caplog: pytest.LogCaptureFixture
) -> None:
    train(tiny.config("decoding.max_source=5", "training.max_steps=1"))
    assert "val: pairs of which validations read only the first decoding.max_source (5) tokens: " in caplog.text


@pytest.mark.parametrize("max_source", [5, 6])
def test_lines_longer_than_in_training_are_warned_of_if_validations_read_them_to_the_end(
    max_source: int, tiny: TinyProject, caplog: pytest.LogCaptureFixture
) -> None:
    train(tiny.config("data.filter.max_tokens=5", f"decoding.max_source={max_source}", "training.max_steps=1"))
    assert ("val: pairs longer than any trained on (data.filter.max_tokens is 5): " in caplog.text) == (max_source > 5)


def test_validation_text_is_never_filtered(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    corpus = tiny.folder / "corpus"
    write_split(
        corpus, "train", ["bako fide"] * 8 + ["@@", "", "bako " * 30], ["koba defi"] * 8 + ["@@", "koba", "koba"]
    )
    write_split(corpus, "val", ["bako", "@@", "", "bako " * 30], ["koba", "@@", "koba", ""])
    trained = calls_of(monkeypatch, BatchPlan, "epoch", lambda plan, _: sorted(plan.indices.tolist()))
    measured = calls_of(monkeypatch, validation, "teacher_forced", lambda model, pairs, indices, *_, **__: [*indices])
    translated = calls_of(monkeypatch, Validator, "__call__", lambda validator, *_: len(validator.sources))
    train(tiny.config(f"data.root={corpus}", "data.filter.max_tokens=20", "training.max_epochs=1"))
    assert {tuple(pairs) for pairs in trained} == {tuple(range(8))}
    assert measured == [[*range(4)]]
    assert translated == [4]
    assert (
        "train: dropped 1 pair: no letter or digit on one side (data.filter.untranslated), first line 9"
        in caplog.messages
    )


CRAWLED = ("crawl-0", "crawl-1", "crawl-2")


@pytest.fixture
def mixed(tiny: TinyProject) -> tuple[str, str]:
    """Settings for a folder of corpora: a split, files of three other ones, and one of these splits again."""
    corpus = tiny.folder / "mixed"
    write_split(corpus, "a", *sentences(30, seed=1))
    write_split(corpus, "val", *sentences(4, seed=9))
    for number, name in enumerate(CRAWLED):
        write_split(corpus, name, *sentences(20, seed=2 + number))
    files = f"source: {corpus}/crawl-*.de, target: {corpus}/crawl-*.en"
    return f"data.root={corpus}", f"data.train=[a, {{{files}, weight: 3}}, {{split: crawl-1}}]"


def test_corpora_are_mixed_by_weight(
    tiny: TinyProject, mixed: tuple[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "translate")
    updates = calls_of(monkeypatch, Trainer, "_update", lambda _, batches, *__: batches)
    run = train(tiny.config(*mixed, "training.max_epochs=1"))
    trained = sorted(int(pair) for batches in updates for batch in batches for pair in batch)
    assert trained == [*range(30), *sorted([*range(30, 90)] * 3), *range(90, 110)]
    said = "\n".join(caplog.messages)
    assert "a: 30 pairs, " in said
    assert "crawl-*.de / crawl-*.en: 60 pairs, 3 pairs of files, " in said
    assert ", 3 times an epoch" in said
    assert "a + crawl-*.de / crawl-*.en + crawl-1: 110 pairs, 3 corpora, " in said
    corpora = [open_split(tiny.folder / "mixed", split, "de", "en").variant for split in ("a", *CRAWLED, "crawl-1")]
    assert SavedModel.load(run.model).about["train_parts"] == corpora  # so that scoring warns of each of them


def test_a_corpus_without_a_say_in_the_vocabulary(
    tiny: TinyProject, mixed: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "translate")
    root, _ = mixed

    def trained_on(name: str, train_on: str) -> SavedModel:
        asked = f"data.train={train_on}", f"output={tiny.folder}/{name}", "training.max_steps=1"
        return SavedModel.load(train(tiny.config(root, *asked)).model)

    alone = trained_on("alone", "a")
    assert not re.search("^a: .* out of vocabulary", caplog.text, re.MULTILINE)
    write_split(tiny.folder / "mixed", "crawl-1", ["x y z", "x"], ["x y", "z"])
    silent = trained_on("silent", "[a, {split: crawl-1, vocabulary: false}]")
    assert [message for message in caplog.messages if re.match(r"a \+ crawl-1: .* out of vocabulary", message)]
    assert (silent.source, silent.target) == (alone.source, alone.target)
    assert trained_on("all", "[a, crawl-1]").source != alone.source


def test_another_vocabulary_is_another_run(tiny: TinyProject, mixed: tuple[str, str]) -> None:
    root, _ = mixed
    settings = (root, "training.max_steps=2")
    train(tiny.config(*settings, "data.train=[a, crawl-1]"))
    train(tiny.config(*settings, "data.train=[a, crawl-1]"), resume=True)
    with pytest.raises(
        CheckpointError,
        match=r"\n  the vocabularies have changed: because of data.train, training.start_from or a library's version",
    ):
        train(tiny.config(*settings, "data.train=[a, {split: crawl-1, vocabulary: false}]"), resume=True)


def test_other_weights_are_another_run(tiny: TinyProject, mixed: tuple[str, str]) -> None:
    settings = (*mixed, "training.max_steps=2")
    train(tiny.config(*settings))
    train(tiny.config(*settings), resume=True)
    lighter = [setting.replace("weight: 3", "weight: 2") for setting in settings]
    with pytest.raises(CheckpointError, match="the train text has changed: the weights of its corpora\n"):
        train(tiny.config(*lighter), resume=True)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@pytest.mark.parametrize(
    ("split", "remedy"), [("train", "data.filter.max_tokens"), ("val", "validation text is never dropped")]
)
def test_sentences_longer_than_the_positions(split: str, remedy: str, positions: str, tiny: TinyProject) -> None:
    corpus = tiny.folder / "corpus"
    write_split(corpus, "train", *sentences(40, seed=1))
    write_split(corpus, "val", *sentences(4, seed=2))
    for language in ("de", "en"):
        with (corpus / f"{split}.{language}").open("a", encoding="utf-8") as file:
            file.write("\nbako fide\n" + "bako " * 30 + "\n")
    overrides = (f"data.root={corpus}", f"model.positions={positions}", "model.max_positions=30")
    config = tiny.config(*overrides, "training.max_epochs=2")
    if positions == "sinusoidal":
        assert newest_state(train(config))[1]["step"] > 2  # Their table grows, also while validating.
        return
    line = {"train": 43, "val": 7}[split]  # Dropped lines count, too, such as the blank one.
    with pytest.raises(DataError) as caught:
        train(config)
    assert str(caught.value).startswith(
        f"{split} line {line} has 31 tokens, including the end token, but model.max_positions is 30; raise it"
    )
    assert remedy in str(caught.value)
    train(tiny.config(*overrides, "model.max_positions=31", "training.max_steps=1"))


def test_the_positions_that_are_asked_for_are_enough_for_all_text(tiny: TinyProject) -> None:
    corpus = tiny.folder / "corpus"
    write_split(corpus, "train", ["bako fide"] * 5 + ["bako " * 20], ["koba"] * 6)
    write_split(corpus, "val", ["bako " * 30], ["koba"])
    overrides = (f"data.root={corpus}", "model.positions=learned", "training.max_steps=1")
    with pytest.raises(DataError, match=r"^train line 6 has 21 tokens.*is 10; raise it to 31, which is enough for all"):
        train(tiny.config(*overrides, "model.max_positions=10"))
    train(tiny.config(*overrides, "model.max_positions=31"))


def test_positions_of_the_model_to_start_from_cannot_be_raised(tiny: TinyProject) -> None:
    learned = ("model.positions=learned", "model.max_positions=30", "training.max_steps=1")
    model = train(tiny.config(*learned)).model
    corpus = tiny.folder / "corpus"
    write_split(corpus, "train", *sentences(40, seed=1))
    write_split(corpus, "val", ["bako " * 30], ["koba"])
    with pytest.raises(DataError, match=r"but model\.max_positions is 30, as in training\.start_from; shorten the"):
        train(
            tiny.config(*learned, f"data.root={corpus}", f"training.start_from={model}", f"output={tiny.folder}/tuned")
        )


def test_what_is_filtered_needs_no_position(tiny: TinyProject) -> None:
    corpus = tiny.folder / "corpus"
    write_split(corpus, "train", ["bako fide"] * 8 + ["bako " * 40], ["koba defi"] * 8 + ["koba"])
    write_split(corpus, "val", ["bako"], ["koba"])
    learned = ("model.positions=learned", "model.max_positions=30", "data.filter.max_tokens=20")
    run = train(tiny.config(f"data.root={corpus}", *learned, "training.max_epochs=1"))
    assert newest_state(run)[1]["step"] == 1


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were asked for, each filled with a made-up corpus instead of Multi30k."""
    asked: list[Path] = []

    def download(root: Path) -> None:
        asked.append(root)
        write_split(root, "train", *sentences(20, seed=1))
        write_split(root, "val", *sentences(4, seed=2))

    monkeypatch.setattr(corpora, "download_multi30k", download)
    return asked


@pytest.mark.parametrize("begun", [False, True])
def test_a_missing_folder_is_downloaded_once(begun: bool, tiny: TinyProject, downloads: list[Path]) -> None:
    root = tiny.folder / "missing"
    if begun:  # by a download that was interrupted
        root.mkdir()
    config = tiny.config(f"data.root={root}", "data.download=true", "training.max_epochs=1")
    train(config)
    train(config, overwrite=True)
    assert downloads == [root]


def test_nothing_is_downloaded_unasked(tiny: TinyProject, downloads: list[Path]) -> None:
    with pytest.raises(DataError, match=r"The folder .*missing does not exist"):
        train(tiny.config(f"data.root={tiny.folder}/missing"))
    french = ("data.source=fr", "data.download=true")
    with pytest.raises(DataError, match=r"data\.download brings German \(de\) and English \(en\), not fr and en: put"):
        train(tiny.config(f"data.root={tiny.folder}/missing", *french))
    (tiny.folder / "other").mkdir()
    (tiny.folder / "other" / "notes.txt").touch()
    with pytest.raises(DataError, match=r"No split 'train' in .*other"):
        train(tiny.config(f"data.root={tiny.folder}/other", "data.download=true"))
    files = "data.{0}={{source: {1}/{0}.de, target: {1}/{0}.en}}"
    write_split(tiny.folder / "mine", "train", *sentences(20, seed=1))
    write_split(tiny.folder / "mine", "valid", *sentences(4, seed=2))
    named = [files.format(text, tiny.folder / "mine") for text in ("train", "valid")]
    train(tiny.config(f"data.root={tiny.folder}/missing", "data.download=true", "training.max_steps=1", *named))
    assert downloads == []


def test_files_with_the_names_of_a_download_are_the_users_unless_one_is_asked_for(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train.de.gz", "train.en.gz"):
        (tiny.folder / "mine").mkdir(exist_ok=True)
        (tiny.folder / "mine" / name).touch()
    monkeypatch.setattr(ParallelCorpora, "open_train", pytest.fail)
    with pytest.raises(DataError, match="hold out a few hundred lines"):
        train(tiny.config(f"data.root={tiny.folder}/mine"))
