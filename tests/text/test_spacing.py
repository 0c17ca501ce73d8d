"""Spaces put back between tokens."""

import json

import pytest

from translate.text.spacing import Spacing, SpacingCounts

# A space stands where one is written; a tilde parts two tokens that join.
LINES = [
    "the cat sleeps~.",
    "a dog barks~.",
    "two birds sing~, and one flies~.",
    "look~, the t~-~shirt is red~!",
    "she does~n't see the blue shirt~!",
    "he ca~n't swim~, he says~.",
    'the sign reads "~stop~"~.',
    'a "~small~" house and a "~big~" one~.',
    'the man says "~hello~"~.',
    "a (~very~) old (~and slow~) car~.",
    "an x~-~ray of the half~-~moon~.",
]


def cut(line: str) -> tuple[list[str], list[bool]]:
    words = [word.split("~") for word in line.split(" ")]
    pieces = [(piece, i == len(word) - 1) for word in words for i, piece in enumerate(word)]
    return [piece for piece, _ in pieces], [space for _, space in pieces]


def learned(lines: list[str]) -> Spacing:
    counts = SpacingCounts()
    for line in lines:
        counts.add(*cut(line))
    return counts.learn()


@pytest.fixture(scope="module")
def spacing() -> Spacing:
    return learned(LINES)


@pytest.mark.parametrize("line", LINES)
def test_training_text_comes_back_exactly(spacing: Spacing, line: str) -> None:
    assert spacing.join(cut(line)[0]) == line.replace("~", "")


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("zebras run .", "zebras run."),
        ("zebras , lions !", "zebras, lions!"),
        ("you have n't seen zebras", "you haven't seen zebras"),
        ("a z - zebra", "a z-zebra"),
        ("( zebras )", "(zebras)"),
        ('" zebra " and " lion " .', '"zebra" and "lion".'),
        ("a red shirt", "a red shirt"),
        ("her shirt", "her shirt"),
    ],
)
def test_unseen_neighbours_follow_the_rules(spacing: Spacing, tokens: str, text: str) -> None:
    assert spacing.join(tokens.split(" ")) == text


def test_the_rules_are_few(spacing: Spacing) -> None:
    assert spacing.alternating == {'"'}
    assert spacing.joins_left == {".", ",", "!", ")", "-", "n't", '" (2)'}
    assert spacing.joins_right == {'"', "(", "-"}


def test_what_the_rules_say_is_no_exception(spacing: Spacing) -> None:
    """Otherwise a model file would list all pairs of neighbours in the training text."""
    assert spacing.joined == spacing.spaced == frozenset()


def test_an_exception_is_one_pair(spacing: Spacing) -> None:
    odd = learned([*LINES, "can~not", "cars - white"])
    assert odd.joined == spacing.joined | {("can", "not")}
    assert ("cars", "-") in odd.spaced
    assert odd.join(["they", "can", "not", "cars", "-", "x", "-", "y"]) == "they cannot cars -x-y"


def test_counts_of_parts_of_a_text_add_up() -> None:
    """Each process counts some lines."""
    whole = SpacingCounts()
    for lines in (["a~b"], ["a b"], ["a~b"], ["c d"]):
        part = SpacingCounts()
        for line in lines:
            part.add(*cut(line))
        whole.update(part)
    assert whole.learn() == learned(["a~b", "a b", "a~b", "c d"])


def test_the_majority_decides_for_a_pair_seen_both_ways() -> None:
    assert learned(["a~b", "a~b", "a b"]).join(["a", "b"]) == "ab"
    assert learned(["a~b", "a b"]).join(["a", "b"]) == "a b"


def test_a_word_seen_only_beside_what_joins_to_it_does_not_join_by_itself() -> None:
    before = learned([*LINES, "stop~.", "stop~,", "stop~!", "stop~n't"])
    assert before.join(["stop", "now"]) == "stop now"
    behind = learned([*LINES, "(~soon", '"~soon~"', "half~-~soon"])
    assert behind.join(["come", "soon"]) == "come soon"


def test_what_joins_to_half_of_its_neighbours_joins_to_no_other() -> None:
    spacing = learned(["a~x", "b~x", "c x", "d x"])
    assert spacing.join(["e", "x"]) == "e x"
    assert spacing.join(["a", "x"]) == "ax"
    assert learned(["x~a", "x~b", "x c", "x d"]).join(["x", "e"]) == "x e"


@pytest.mark.parametrize("lines", [["(~a", "(~b", "(~c", "( x", "a~x", "b~x", "c x"], ["x~a", "x~b", "x c"]])
def test_a_space_counts_even_beside_a_token_that_joins_to_others(lines: list[str]) -> None:
    """Otherwise `x` would join to most of its neighbours, and so to unseen ones."""
    spacing = learned([*lines, "a~.", "b~.", "c~.", "x ."])
    assert spacing.join(["e", "x", "e"]) == "e x e"


@pytest.mark.parametrize("token", ["a", "1", "..."])
def test_only_single_symbols_alternate(token: str) -> None:
    """Others do not open and close anything, though the second one in a line may often have no space before it."""
    spacing = learned([f"the {token} x~{token}", f"one {token} y~{token}"])
    assert spacing.join(["then", token, "and", token]) == f"then {token} and {token}"


def test_a_symbol_with_spaces_half_of_the_time_is_one_that_has_them() -> None:
    """As pairs are that were seen both ways."""
    opens = learned(['a "~b~" c', 'd~"~e~" f'])
    assert opens.alternating == {'"'}
    closes = learned(['a~"~b " c', 'd~"~e~" f'])
    assert closes.alternating == {'"'}


def test_a_language_without_spaces() -> None:
    spacing = learned(["我~爱~你~。", "你~爱~我~。", "他~爱~我~,~我~爱~他~。"])
    assert spacing.join(["他", "爱", "你", "。"]) == "他爱你。"
    assert spacing.join(["她", "看", "我", "。"]) == "她看我。"


def test_spaces_in_a_language_without_them_stand_where_they_were_seen() -> None:
    spacing = learned(["我~爱~你~。", "你~爱~我~。", "他~爱~我~,~我~爱~他~。", "你~看 OK~。"])
    assert spacing.join(["我", "看", "OK", "。"]) == "我看 OK。"
    assert Spacing.from_dict(json.loads(json.dumps(spacing.to_dict()))) == spacing


def test_latin_words_in_a_language_without_spaces_stand_apart() -> None:
    spacing = learned(["我~爱~你~。", "你~爱~我~。", "他~爱~我~,~我~爱~他~。", "我~看~iPhone~15~。"])
    assert spacing.join(["我", "看", "hello", "world", "。"]) == "我看hello world。"
    assert spacing.join(["iPhone", "15"]) == "iPhone15"
    assert spacing.join(["hello", "!"]) == "hello!"


def test_rules_of_other_languages_are_saved_as_before() -> None:
    assert learned(["a b~."]).to_dict().keys() == {"alternating", "joins_left", "joins_right", "joined", "spaced"}


def test_white_space_becomes_one_plain_space(spacing: Spacing) -> None:
    assert spacing.join([" ", "a", "\u00a0", "b", "\u2028", "\t", "c", "\r"]) == "a b c"


@pytest.mark.parametrize(("tokens", "text"), [([], ""), (["a"], "a"), (['"'], '"')])
def test_short_lines(spacing: Spacing, tokens: list[str], text: str) -> None:
    assert spacing.join(tokens) == text


def test_nothing_learned_puts_a_space_everywhere() -> None:
    assert SpacingCounts().learn() == Spacing()
    assert Spacing().join(["a", ".", '"']) == 'a . "'


def test_json_round_trip(spacing: Spacing) -> None:
    assert Spacing.from_dict(json.loads(json.dumps(spacing.to_dict()))) == spacing


def test_symbols_in_a_language_without_spaces_are_not_told_apart() -> None:
    spacing = learned(["我~爱~你~。", "你~爱~我~。", '他~说 "~好~"~。', '你~说 "~爱~" 吗~。'])
    assert spacing.unspaced
    assert spacing.join(["他", "说", '"', "爱", '"', "吗", "。"]) == '他说 "爱" 吗。'
