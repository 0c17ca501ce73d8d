"""Scores: equal to sacrebleu, to a hand computation, and to torchtext's BLEU of the tutorials."""

import json
import math
from collections.abc import Callable
from functools import partial

import pytest
import sacrebleu

from translate.errors import DataError
from translate.evaluation.bleu import EvaluationReport, corpus_bleu, corpus_chrf, evaluate, tokenized_bleu

REFERENCES = [
    "A small boat lies in the harbour.",
    "Two women are reading in the old library.",
    "The cook cuts onions, and a child watches him.",
    "Nobody sits on the wooden bench today.",
]
HYPOTHESES = [
    "A small boat lies in a harbour.",
    "two women are reading in the library.",
    "The cook cuts onions, and a child looks at him.",
    "",
]


@pytest.fixture(scope="module")
def report() -> EvaluationReport:
    return evaluate(HYPOTHESES, REFERENCES)


def test_scores_are_those_of_sacrebleu(report: EvaluationReport) -> None:
    assert report.bleu.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert report.bleu_lowercase.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=True).score
    assert report.chrf.value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert report.bleu.value < report.bleu_lowercase.value


def test_no_score_is_above_100() -> None:
    report = evaluate(REFERENCES, REFERENCES, tokens=([["a"] * 4], [["a"] * 4]))
    scores = report.bleu.value, report.bleu_lowercase.value, report.chrf.value, report.tokenized_bleu
    assert (*scores, corpus_bleu(REFERENCES, REFERENCES, "en")) == (100,) * 5  # sacrebleu's is 100.00000000000004


def test_signatures_name_case_tokenizer_seed_and_resamples(report: EvaluationReport) -> None:
    version = sacrebleu.__version__
    assert report.bleu.signature == f"nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert (
        report.bleu_lowercase.signature
        == f"nrefs:1|bs:1000|seed:12345|case:lc|eff:no|tok:13a|smooth:exp|version:{version}"
    )
    assert report.chrf.signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}"


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("zh", "zh"),
        ("zh-cn", "zh"),
        ("zh_Hant", "zh"),
        ("zho", "zh"),
        ("ja", "char"),
        ("JPN", "char"),
        ("th", "char"),
        ("de", "13a"),
        ("de_AT", "13a"),
    ],
)
def test_languages_without_spaces_are_not_one_word_a_sentence(language: str, tokenizer: str) -> None:
    references = ["一个男人骑着自行车。", "两只狗在草地上玩耍。"]
    hypotheses = ["一个男人骑着马。", "两只狗在草地上玩耍。"]
    report = evaluate(hypotheses, references, language)
    assert f"|tok:{tokenizer}|" in report.bleu.signature
    assert f"|tok:{tokenizer}|" in report.bleu_lowercase.signature
    assert corpus_bleu(hypotheses, references, language) == report.bleu.value
    assert (report.bleu.value > 30) == (tokenizer != "13a")


def test_lower_case_is_that_of_the_language() -> None:
    line, small = "ILIK BİR KIŞ GÜNÜ İKİ ÇOCUK", "ılık bir kış günü iki çocuk"
    assert evaluate([small], [line], "tr").bleu_lowercase.value == pytest.approx(100)
    assert evaluate([small], [line], "en").bleu_lowercase.value < 50


def test_interval_is_the_same_each_time_and_closes_on_equal_sentences(report: EvaluationReport) -> None:
    assert report.bleu.interval is not None
    resampled = sacrebleu.BLEU().corpus_score(HYPOTHESES, [REFERENCES], n_bootstrap=1000)
    assert report.bleu.interval == pytest.approx(resampled._ci, rel=1e-3)
    assert evaluate(HYPOTHESES, REFERENCES) == report
    assert evaluate(REFERENCES, REFERENCES).bleu.interval == 0
    assert report.chrf.interval is None


def test_lengths_and_counts(report: EvaluationReport) -> None:
    translated, reference = 8 + 8 + 12 + 0, 8 + 9 + 11 + 8  # tokens of 13a: punctuation counts
    assert report.length_ratio == pytest.approx(translated / reference)
    assert report.brevity_penalty == pytest.approx(math.exp(1 - reference / translated))
    assert (report.sentences, report.empty, report.distinct) == (4, 1, 4)
    assert report.tokenized_bleu is None
    assert evaluate([" ", "a"], ["a", "a"]).empty == 1
    assert evaluate(["R &AMP; D"], ["R and D"]).length_ratio == pytest.approx(5 / 3)  # in lower case "&amp;" is one "&"


def test_sentences_without_any_reference_are_warned_of() -> None:
    translations = ["one dog", "two cats", "a house"]
    assert evaluate(translations, ["one dog", "two", "the house"]).warning is None
    found = evaluate(translations, ["one dog", " ", ""], others=[["", "two cats", ""]])
    assert found.unreferenced == 1
    assert found.warning == "1 of 3 sentences have no reference, which changes the scores"
    assert found.format().endswith(f"warning: {found.warning}")


def test_further_references_that_are_too_few() -> None:
    with pytest.raises(DataError, match="2 translations cannot be scored against 1 references"):
        evaluate(["a", "b"], ["a", "b"], others=[["a"]])


def test_a_blank_further_reference_changes_nothing() -> None:
    translations = ["the cat sat on the mat"] * 3 + ["short"]
    references = ["the cat sat on the mat"] * 3 + ["a much longer reference sentence"]
    one, two = evaluate(translations, references), evaluate(translations, references, others=[["", " ", "", "\t"]])
    assert (one.bleu.value, one.bleu_lowercase.value) == (two.bleu.value, two.bleu_lowercase.value)
    assert (one.chrf, one.length_ratio, one.brevity_penalty) == (two.chrf, two.length_ratio, two.brevity_penalty)
    assert one.brevity_penalty < 1


def test_report_for_json_is_plain(report: EvaluationReport) -> None:
    values = json.loads(json.dumps(report.to_dict()))
    assert values["bleu"] == {
        "value": report.bleu.value,
        "signature": report.bleu.signature,
        "interval": report.bleu.interval,
    }
    assert values["warning"] is None
    assert values["sentences"] == 4


def test_report_for_the_terminal() -> None:
    lines = evaluate(REFERENCES, REFERENCES, tokens=([["a"] * 4], [["a"] * 4])).format().split("\n")
    assert [line[:25] for line in lines] == [
        "BLEU              100.00 ",
        "BLEU, lower-cased 100.00 ",
        "chrF              100.00 ",
        "tokenized BLEU    100.00 ",
        "length ratio       1.000 ",
        "sentences              4 ",
    ]
    assert lines[0][25:].startswith("± 0.00  nrefs:1|bs:1000|seed:12345|case:mixed")
    assert lines[3].endswith("(torchtext), not comparable")
    assert lines[4].endswith("brevity penalty 1.000")
    assert lines[5].endswith("0 empty, 4 distinct")


def test_many_equal_translations_are_warned_of() -> None:
    report = evaluate(["A dog runs."] * 40, [f"{n} dogs run." for n in range(40)])
    assert report.warning == (
        "only 1 of 40 translations are distinct: the model seems to ignore the source; it may need more updates "
        "(training.max_epochs or training.max_steps) or a lower learning rate (training.optimizer.lr)"
    )
    assert report.format().endswith(f"\nwarning: {report.warning}")
    assert report.to_dict()["warning"] == report.warning
    assert evaluate(["A dog runs."] * 10, ["A dog runs."] * 10).warning is None
    text = ["A dog runs.", "A cat runs."] * 40  # of only two sentences
    assert evaluate(text, text).warning is None
    assert evaluate(text[:1] * 80, text).warning is not None


def test_what_sacrebleu_says_of_tokenized_text_names_an_option_that_is_not_ours(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    lines = [f"Mann {number} ." for number in range(200)]
    evaluate(lines, lines)
    corpus_bleu(lines, lines, "en")
    assert (caplog.messages, capsys.readouterr().err) == ([], "")


@pytest.mark.parametrize("score", [evaluate, partial(corpus_bleu, language="en"), corpus_chrf, tokenized_bleu])
def test_what_cannot_be_scored(score: Callable[[list[str], list[str]], object]) -> None:
    with pytest.raises(DataError) as unequal:
        score(["a b", "c"], ["a b"])
    assert str(unequal.value) == (
        "2 translations cannot be scored against 1 references: give one reference line for each source line"
    )
    with pytest.raises(DataError) as empty:
        score([], [])
    assert str(empty.value) == "there are no translations to score: the source and the reference are empty"


def test_scores_for_validation_are_those_of_the_report(report: EvaluationReport) -> None:
    assert corpus_bleu(HYPOTHESES, REFERENCES, "en") == report.bleu.value
    assert corpus_chrf(HYPOTHESES, REFERENCES) == report.chrf.value


def test_tokenized_bleu_by_hand() -> None:
    hypotheses = [["the", "red", "kite", "flies", "high", "."], ["a", "a", "dog", "barks", "."]]
    references = [["the", "red", "kite", "flies", "very", "high", "."], ["a", "dog", "barks", "loudly", "."]]
    # matches of 1- to 4-grams: 6 + 4 of 6 + 5; 4 + 2 of 5 + 4; 2 + 1 of 4 + 3; 1 + 0 of 3 + 2; 11 tokens against 12
    precisions = [10 / 11, 6 / 9, 3 / 7, 1 / 5]
    expected = 100 * math.exp(1 - 12 / 11) * math.prod(precisions) ** 0.25
    assert tokenized_bleu(hypotheses, references) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        ([h.split() for h in HYPOTHESES], [r.split() for r in REFERENCES]),
        (
            [r.lower().replace(".", " .").split() for r in REFERENCES],
            [r.replace(".", " .").split() for r in REFERENCES],
        ),
        ([["no", "four", "words", "match"]], [["no", "four", "words", "match", "here"]]),
        ([["one", "two", "three"]], [["one", "two", "three"]]),  # no 4-gram: unsmoothed, so 0
        ([["one", "two", "three", "four"]], [["one", "two", "three", "five"]]),  # no right one: unsmoothed, so 0
    ],
    ids=["empty", "case", "short", "no 4-gram", "no right 4-gram"],
)
def test_tokenized_bleu_is_that_of_torchtext(hypotheses: list[list[str]], references: list[list[str]]) -> None:
    bleu_score = pytest.importorskip("torchtext.data.metrics", reason="torchtext is not installed").bleu_score
    expected = 100 * bleu_score(hypotheses, [[reference] for reference in references])
    assert tokenized_bleu(hypotheses, references) == pytest.approx(expected, rel=1e-5)


def test_a_token_of_white_space_is_one_token() -> None:
    for tokens in ([["a", "  ", "b", "c"]], [["a", "  ", "b\xa0c", "d"]]):
        assert tokenized_bleu(tokens, tokens) == pytest.approx(100)  # four tokens, one 4-gram
    assert tokenized_bleu([["a", "b\xa0c", "d"]], [["a", "b\xa0c", "d"]]) == 0  # three tokens
    assert tokenized_bleu([["a", "  ", "b", "c", "d"]], [["a", "b", "c", "d", "e"]]) < 100


def test_translations_that_share_nothing_with_the_references_score_zero() -> None:
    report = evaluate(["a", "b"], ["x y z", "u v w"])
    assert (report.bleu.value, report.bleu.interval) == (0.0, 0.0)
