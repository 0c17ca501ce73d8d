"""What other toolkits call our settings: every piece of advice leads somewhere."""

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


def test_no_name_has_two_meanings_in_one_section() -> None:
    for section in {ours.partition(".")[0] for ours in NAMES_ELSEWHERE}:
        within = [names.split() for ours, names in NAMES_ELSEWHERE.items() if ours.partition(".")[0] == section]
        names = [name for each in within for name in each]
        assert len(names) == len(set(names))
    assert not INSTEAD.keys() & {name for names in NAMES_ELSEWHERE.values() for name in names.split()}


def test_a_name_with_several_meanings_means_that_of_its_section() -> None:
    assert our_name("batch_size", "training") == "training.batch.max_sentences"
    assert our_name("batch_size", "decoding") == "decoding.batch_tokens"
    assert our_name("--Max-Length", "decoding") == "decoding.max_extra"
    assert our_name("max_length", "model") == "data.filter.max_tokens"
    assert our_name("zzz", "model") is None


def test_values_elsewhere_stand_for_values_here() -> None:
    kinds = {kind_of(section) for _, section in all_sections()}
    ours = {word for _, field in FIELDS for word in choices(field)} | kinds
    assert set(VALUES_ELSEWHERE.values()) <= ours
    assert not VALUES_ELSEWHERE.keys() & ours
