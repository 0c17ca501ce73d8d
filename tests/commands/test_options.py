"""The options of translate.py and evaluate.py for the search: one for each setting of the section `decoding`."""

import argparse
from typing import get_args

import pytest

from translate.commands.evaluate import describe_search
from translate.commands.options import SearchOptions, add_search_options
from translate.config.decoding import OWN_SETTINGS, VALIDATION_SETTINGS, DecodingConfig

SEARCHES = get_args(DecodingConfig.model_fields["search"].annotation)


def test_every_setting_but_one_has_an_option_and_every_kind_of_search_is_a_choice() -> None:
    parser = argparse.ArgumentParser()
    add_search_options(parser)
    options = vars(parser.parse_args([]))
    assert DecodingConfig.model_fields.keys() - options.keys() == {"max_extra"}
    for search in SEARCHES:
        assert parser.parse_args(["--search", search]).search == search


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("--num-beams", "; did you mean --beam-size?"),
        ("--lenpen", "; did you mean --length-penalty?"),
        ("--no-repeat-ngram-size", "; search neither forbids repetitions nor sets a least length"),
        ("--max-len-b", ""),  # no option
        ("--zzz", ""),
    ],
)
def test_options_of_other_toolkits_get_advice(option: str, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = SearchOptions(prog="translate.py")
    add_search_options(parser)
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args([option, "5"])
    assert capsys.readouterr().err.endswith(f"translate.py: error: unrecognized arguments: {option} 5{advice}\n")


def test_every_kind_of_search_is_described_in_other_words() -> None:
    assert len({describe_search(DecodingConfig(search=search)) for search in SEARCHES}) == len(SEARCHES)


def test_settings_of_one_search_are_known_as_such() -> None:
    fields = DecodingConfig.model_fields
    sampling = {name for name, field in fields.items() if str(field.description).startswith("Sampling: ")}
    assert OWN_SETTINGS["sample"] == sampling
    assert OWN_SETTINGS.keys() == {*SEARCHES} - {"greedy"}
    assert set().union(*OWN_SETTINGS.values(), VALIDATION_SETTINGS, {"search", "batch_tokens"}) == fields.keys()
