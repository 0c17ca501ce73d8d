"""What other toolkits call our settings: every piece of advice leads somewhere."""

from itertools import combinations

import pytest

from translate.config.foreign import INSTEAD, NAMES_ELSEWHERE, VALUES_ELSEWHERE, our_name
from translate.config.keys import all_sections, choices, kind_of

FIELDS = [
    (f"{home}.{name}".lstrip("."), field)
    for home, section in all_sections()
    for name, field in section.model_fields.items()
]
SETTINGS = dict(FIELDS)


@pytest.mark.parametrize("ours", NAMES_ELSEWHERE)
def test_advice_names_a_setting_that_exists(ours: str) -> None:
    assert ours in SETTINGS


def test_no_name_is_one_of_ours_in_the_section_that_it_stands_for() -> None:
    """Then it would be no unknown key, and the advice would never be given."""
    for ours, names in NAMES_ELSEWHERE.items():
        home = ours.rpartition(".")[0]
        assert not [name for name in names.split() if f"{home}.{name}".lstrip(".") in SETTINGS]


def test_a_name_has_two_meanings_in_one_section_only_if_they_belong_to_different_kinds() -> None:
    kinds = {home: [section for where, section in all_sections() if where == home] for home, _ in all_sections()}
    for one, other in combinations(NAMES_ELSEWHERE, 2):
        both = set(NAMES_ELSEWHERE[one].split()) & set(NAMES_ELSEWHERE[other].split())
        (home, _, first), (elsewhere, _, second) = one.rpartition("."), other.rpartition(".")
        if both and home == elsewhere:
            assert not [section for section in kinds[home] if {first, second} <= section.model_fields.keys()]


def test_no_name_is_a_setting_and_none() -> None:
    names = [name for each in (*NAMES_ELSEWHERE.values(), *INSTEAD.values()) for name in set(each.split())]
    none = {name for each in INSTEAD.values() for name in each.split()}
    assert not none & {name for each in NAMES_ELSEWHERE.values() for name in each.split()}
    assert sum(name in none for name in names) == len(none)


def test_a_name_with_several_meanings_means_the_nearest() -> None:
    assert our_name("batch_size", "training") == "training.batch"
    assert our_name("batch_size", "decoding") == "decoding.batch_tokens"
    assert our_name("--Max-Length", "decoding") == "decoding.max_extra"
    assert our_name("max_len", "model") == our_name("max_len", "model.encoder") == "model.max_positions"
    assert our_name("max_length", "model") == "data.filter.max_tokens"
    assert our_name("src", "data") == "data.source"
    assert our_name("src", "data.valid") == "data.valid.source"
    assert our_name("src", "") == "data.source"
    assert our_name("voc_limit", "text.tokenizer", ["max_size"]) == "text.tokenizer.max_size"
    assert our_name("zzz", "model") is None


def test_values_elsewhere_stand_for_values_here() -> None:
    kinds = {kind_of(section) for _, section in all_sections()}
    ours = {word for _, field in FIELDS for word in choices(field)} | kinds
    assert set(VALUES_ELSEWHERE.values()) <= ours
    assert not VALUES_ELSEWHERE.keys() & ours
