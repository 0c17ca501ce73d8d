"""What the code of a language tells about its writing: how words are divided, and which letters it has.

Codes are those of ISO 639, of two or three letters. A region or a script after them makes no difference.
"""

import re
from functools import cache

CHINESE = {"zh", "zho", "chi", "cmn", "yue", "lzh", "wuu", "nan"}
# Others without spaces between words.
UNSPACED = {"bo", "bod", "tib", "dz", "dzo", "ja", "jpn", "km", "khm", "lo", "lao", "my", "mya", "bur", "th", "tha"}
TWO_I = {"tr", "tur", "az", "aze", "azj", "azb", "crh", "gag"}
DUTCH = {"nl", "nld", "dut"}


@cache
def base_code(language: str) -> str:
    """The code of a language without region and script: that of "zh-CN" and "zh_Hant" is "zh"."""
    return re.split("[-_]", language.lower())[0]


def is_chinese(language: str) -> bool:
    """Whether it is a Chinese language."""
    return base_code(language) in CHINESE


def has_spaces(language: str) -> bool:
    """Whether spaces divide its words, as far as is known."""
    return base_code(language) not in CHINESE | UNSPACED


def has_two_i(language: str) -> bool:
    """Whether i with and without a dot are two letters."""
    return base_code(language) in TWO_I


def has_letter_ij(language: str) -> bool:
    """Whether i and j together may be one letter, both of which become capitals."""
    return base_code(language) in DUTCH
