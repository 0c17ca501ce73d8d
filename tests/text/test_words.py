"""Text cut by spaCy, and what is said when it cannot be."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokenizer import Tokenizer

from translate.config.text import TextConfig
from translate.errors import ConfigError, DataError
from translate.text import words as words_module
from translate.text.build import build_codecs
from translate.text.spacing import Spacing
from translate.text.tokenizers import tokenizer_from_dict
from translate.text.words import WordTokenizer, _spacy_tokenizer


def words(language: str, line: str) -> list[str]:
    return next(WordTokenizer(language).tokenize([line]))


@pytest.mark.parametrize(
    ("language", "line", "tokens"),
    [
        ("en", "She doesn't see the dog's ball.", ["She", "does", "n't", "see", "the", "dog", "'s", "ball", "."]),
        ("de", "Er läuft z.B. im Wald.", ["Er", "läuft", "z.B.", "im", "Wald", "."]),
        ("it", "L'uomo corre.", ["L'", "uomo", "corre", "."]),
        ("zh", "我爱你。", ["我", "爱", "你", "。"]),
        ("en", "", []),
        ("en", " \t\u00a0\u2028\r ", []),
        ("en", "  a cat  ", ["a", "cat"]),
        ("en", "a  cat", ["a", " ", "cat"]),
        ("en", "a\u00a0cat\tsat", ["a", "\u00a0", "cat", "\t", "sat"]),
        ("en", "cats\U0001f408 run", ["cats", "\U0001f408", "run"]),
        ("en", "a \udcff b", ["a", "?", "b"]),
    ],
)
def test_words(language: str, line: str, tokens: list[str]) -> None:
    assert words(language, line) == tokens


def test_lower_case_comes_before_cutting() -> None:
    assert list(WordTokenizer("en", lowercase=True).tokenize(["A Cat."])) == [["a", "cat", "."]]
    assert list(WordTokenizer("tr", lowercase=True).tokenize(["IŞIK İzi"])) == [["ışık", "izi"]]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\r", "\v", "\f"])
def test_a_line_separator_does_not_end_a_line(separator: str) -> None:
    tokens = words("en", f"a cat{separator}a dog")
    assert tokens[:2] + tokens[-2:] == ["a", "cat", "a", "dog"]
    assert "".join(tokens[2:-2]).strip() == ""


@pytest.mark.parametrize("calls", [1, 10])
def test_words_are_forgotten_again(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"the {number}th cat{number} doesn't sleep" for number in range(200)]
    tokenizer = WordTokenizer("en")
    expected = list(tokenizer.tokenize(lines))
    monkeypatch.setattr(words_module, "MAX_NEW_WORDS", 150)
    size = len(lines) // calls
    found = [tokens for start in range(0, 200, size) for tokens in tokenizer.tokenize(lines[start : start + size])]
    assert found == expected
    assert len(_spacy_tokenizer("en", None).vocab) < len(spacy.blank("en").vocab) + 150 + 10


def test_a_very_long_line() -> None:
    assert words("en", "word " * 10_000) == ["word"] * 10_000


def test_a_long_run_without_spaces_is_cut_in_time_that_grows_with_it() -> None:
    calls: list[int] = []

    def spy(part: str) -> list[Any]:
        calls.append(len(part))
        return list(_spacy_tokenizer("en", None)(part))

    line = f"a {'=' * 50_000} b {'x' * 2500} c"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("translate.text.words._spacy_tokenizer", lambda *_: spy)
        ((tokens, spaces),) = WordTokenizer("en").tokenize_with_spaces([line])
    assert max(calls) < 2100
    assert "".join(token + " " * space for token, space in zip(tokens, spaces, strict=True)) == line
    assert tokens[-5:] == ["b", "x" * 1000, "x" * 1000, "x" * 500, "c"]


def test_a_line_that_the_tokenizer_cannot_cut_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_long(_: str) -> list[Any]:
        raise RuntimeError("Input is too long")

    monkeypatch.setattr("translate.text.words._spacy_tokenizer", lambda *_: too_long)
    with pytest.raises(
        DataError, match=r"'ja' cannot tokenize the line that begins with 'ab', of 2 characters: Input is"
    ):
        words("ja", "ab")


def test_what_cuts_is_named_with_the_packages_behind_it() -> None:
    assert WordTokenizer("en").packages == ("spacy",)
    assert WordTokenizer("ja").packages == ("spacy", "SudachiPy", "SudachiDict-core")
    assert WordTokenizer("ja", model="ja_core").packages == ("spacy", "ja_core")


def test_a_configured_model_cuts(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    assert isinstance(nlp.tokenizer, Tokenizer)
    nlp.tokenizer.add_special_case("ab", [{"ORTH": "a"}, {"ORTH": "b"}])
    nlp.to_disk(tmp_path)
    tokenizer = WordTokenizer("en", model=str(tmp_path))
    assert list(tokenizer.tokenize(["ab c"])) == [["a", "b", "c"]]
    assert tokenizer.packages == ("spacy", str(tmp_path))


def test_each_side_has_its_own_spacy_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, "_spacy_tokenizer", lambda language, model: spacy.blank(language).tokenizer)
    config = TextConfig.model_validate({"tokenizer": {"kind": "word", "source_model": "one", "target_model": "two"}})
    source, target = build_codecs(config, ("de", "en"), ["Ein Hund."], ["A dog."])
    assert (source.tokenizer.packages, target.tokenizer.packages) == (("spacy", "one"), ("spacy", "two"))


def test_the_folder_of_a_model_does_not_depend_on_the_working_directory() -> None:
    config = TextConfig.model_validate({"tokenizer": {"kind": "word", "target_model": "models/en"}})
    with pytest.raises(ConfigError, match=r"spaCy model 'models/en' \(.*\) is a folder: give its whole path"):
        build_codecs(config, ("de", "en"), ["Ein Hund."], ["A dog."])


def test_a_missing_model_names_the_command_that_installs_it() -> None:
    with pytest.raises(ConfigError) as caught:
        list(WordTokenizer("de", model="de_no_such_model").tokenize(["Hallo."]))
    assert str(caught.value) == (
        "spaCy model 'de_no_such_model' (text.tokenizer.source_model or target_model) is not installed: "
        "python -m spacy download de_no_such_model, or leave that setting out to do without a model"
    )


def test_a_missing_folder_is_no_package_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        list(WordTokenizer("de", model=f"{tmp_path}/model").tokenize(["Hallo."]))
    assert str(caught.value) == (
        f"spaCy model '{tmp_path}/model' (text.tokenizer.source_model or target_model) is no folder with a model: "
        "name another one, or leave that setting out to do without a model"
    )


def test_a_package_that_is_no_model() -> None:
    with pytest.raises(ConfigError, match=r"^spaCy model 'spacy' .* cannot be loaded \(TypeError\); name another one"):
        list(WordTokenizer("de", model="spacy").tokenize(["Hallo."]))


@pytest.mark.parametrize(("language", "base"), [("pt-BR", "pt"), ("zh_CN", "zh"), ("EN", "en")])
def test_a_region_makes_no_difference(language: str, base: str) -> None:
    line = "Don't, à l'amigo d'água: 他们在看书。"
    assert words(language, line) == words(base, line)
    assert WordTokenizer("ja_JP").packages == WordTokenizer("ja").packages


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("deu", "spaCy has no tokenizer for the language 'deu'; did you mean de? Subwords need none: text.tokenizer"),
        ("ger", "spaCy has no tokenizer for the language 'ger'; did you mean de?"),
        ("deu-AT", "spaCy has no tokenizer for the language 'deu-AT'; did you mean de?"),
        ("qqq", "spaCy has no tokenizer for the language 'qqq'; it has: af, am, ar,"),
    ],
)
def test_an_unknown_language_gets_the_nearest_codes(language: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        words(language, "x")
    assert str(caught.value).startswith(message)


def test_an_unknown_language_of_the_target_is_refused_before_the_source_is_counted() -> None:
    def unread() -> Iterator[str]:
        pytest.fail("the source is read first")
        yield

    with pytest.raises(ConfigError, match="no tokenizer for the language 'qqq'"):
        build_codecs(TextConfig(), ("en", "qqq"), unread(), ["x"])


@pytest.mark.parametrize("error", [ImportError, RuntimeError])
def test_a_language_that_needs_another_package(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def blank(language: str) -> None:
        raise error("Japanese support requires SudachiPy")

    monkeypatch.setattr(spacy, "blank", blank)
    with pytest.raises(ConfigError) as caught:
        words("ja", "x")
    assert str(caught.value) == (
        "spaCy's tokenizer for 'ja' needs another package: Japanese support requires SudachiPy. Other kinds need none: "
        "text.tokenizer.kind=char or bpe"
    )


def test_without_spacy_joining_works_and_cutting_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    _spacy_tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "spacy", None)
    tokenizer = WordTokenizer("en", spacing=Spacing(joins_left=frozenset(".")))
    assert tokenizer.detokenize(["Hi", "."]) == "Hi."
    with pytest.raises(ConfigError, match=r"needs spaCy, but the module 'spacy' is not installed: pip install spacy\."):
        list(tokenizer.tokenize(["Hi."]))


def test_pytorch_can_be_imported_after_spacy_could_not(monkeypatch: pytest.MonkeyPatch) -> None:
    _spacy_tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(ConfigError, match="needs spaCy"):
        WordTokenizer("en").check()
    assert "torch" not in sys.modules


def test_json_round_trip() -> None:
    tokenizer = WordTokenizer("de", "a_model", True, Spacing(joined=frozenset({("a", "b")})))
    assert tokenizer_from_dict(json.loads(json.dumps(tokenizer.to_dict()))) == tokenizer
