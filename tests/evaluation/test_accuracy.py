"""How many labels are right, counted by hand."""

import json

from translate.evaluation.accuracy import LabelCount, count_labels

REFERENCES = ["de", "en", "de", "fr", "de", "en", "de", "en"]
FOUND = ["de", "en", "en", "de", "de", "en", "de", ""]


def test_counts_by_hand() -> None:
    report = count_labels(FOUND, REFERENCES)
    # Most frequent first.
    assert list(report.labels.items()) == [("de", LabelCount(3, 4)), ("en", LabelCount(2, 3)), ("fr", LabelCount(0, 1))]
    assert (report.right, report.texts, report.accuracy) == (5, 8, 0.625)
    assert (report.most_frequent, report.majority_baseline) == ("de", 0.5)
    assert (
        report.summary()
        == "accuracy 62.5% of 8 texts (majority baseline 50.0%), correct by label: de 3/4, en 2/3, fr 0/1"
    )
    assert report.format().split("\n") == [
        "accuracy            62.50         5 of 8 texts",
        "majority baseline   50.00         always de, the most frequent label",
        "de                  75.00         3 of 4",
        "en                  66.67         2 of 3",
        "fr                   0.00         0 of 1",
    ]


def test_plain_values() -> None:
    values = json.loads(json.dumps(count_labels(FOUND, REFERENCES).to_dict()))
    assert values["labels"]["en"] == {"right": 2, "total": 3}
    assert (values["accuracy"], values["texts"], values["majority_baseline"], values["most_frequent"]) == (
        0.625,
        8,
        0.5,
        "de",
    )


def test_ties_are_in_alphabetical_order() -> None:
    assert list(count_labels(["a", "b"], ["b", "a"]).labels) == ["a", "b"]


def test_the_same_label_for_all_texts_is_suspicious() -> None:
    warning = "all texts (but blank ones) are given the same label: the model seems to ignore its input"
    report = count_labels(["de", "de"], ["de", "en"])
    assert report.warning == warning
    assert report.format().endswith(f"\nwarning: {warning}")
    assert count_labels(["de", "", "de"], ["de", "de", "en"]).warning == warning
    assert count_labels(["de", "de"], ["de", "de"]).warning is None
    assert count_labels(["", ""], ["de", "en"]).warning is None
    assert count_labels(["de", "en"], ["en", "de"]).warning is None


def test_many_or_long_labels() -> None:
    labels = [f"label number {number:02}" for number in range(12)]
    report = count_labels(labels, labels)
    assert report.summary().endswith("label number 09 1/1, …")
    assert len(report.format().split("\n")) == 14
    (row,) = count_labels(["x" * 30], ["x" * 30]).format().split("\n")[2:]
    assert row == f"{'x' * 30}  100.00         1 of 1"


def test_ten_labels_are_all_there_is_in_one_line() -> None:
    labels = [f"label {number}" for number in range(10)]
    assert count_labels(labels, labels).summary().endswith(", label 9 1/1")


def test_plain_values_have_the_warning() -> None:
    for found in (["de", "de"], ["de", "en"]):
        report = count_labels(found, ["de", "en"])
        assert report.to_dict()["warning"] == report.warning
