"""The published texts of Multi30k, known by their content and not by the file or archive they come in.

Elliott, Frank, Sima'an, Specia: "Multi30K: Multilingual English-German Image Descriptions", VL 2016.
"""

from dataclasses import dataclass

from translate.data.digest import abridged
from translate.errors import DataError

# What a run needs, and what is downloaded on request.
DOWNLOADED_SPLITS = ("train", "val", "test_2016_flickr")
DOWNLOADED_LANGUAGES = {"de", "en"}


@dataclass(frozen=True)
class KnownText:
    """One side of one split; `edition` is empty for the files of the authors' repository."""

    split: str
    language: str
    lines: int
    sha256: str  # of the text with exactly one trailing newline, UTF-8
    edition: str = ""


KNOWN_TEXTS = (
    KnownText("train", "de", 29000, "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
    KnownText("train", "en", 29000, "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
    KnownText("val", "de", 1014, "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
    KnownText("val", "de", 1014, "366863c09b91e91c100bc87501a85fe1ce49270c2301de46d39075aee5ce8021", "WMT16 tarball"),
    KnownText("val", "en", 1014, "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
    KnownText("test_2016_flickr", "de", 1000, "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16"),
    KnownText("test_2016_flickr", "en", 1000, "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182"),
    KnownText("test_2017_flickr", "de", 1000, "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081"),
    KnownText("test_2017_flickr", "en", 1000, "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98"),
    KnownText("test_2017_mscoco", "de", 461, "58277df3c75f92f7145a11b910b553d1cf82c439249d4dc237c899609eafac22"),
    KnownText("test_2017_mscoco", "en", 461, "43051fdfa86fd5395182e718a94ca67b1b227b9f7c79596ff0f6b813216981d2"),
    KnownText("test_2018_flickr", "de", 1071, "39fcc8b3331d76fb42d648d019c6898b0d5e58baac87bc2a0bb93f44ec8db207"),
    KnownText("test_2018_flickr", "en", 1071, "4e585c2dd525911a6ea7730e9d0b516239af3f1b1ffae6a2130223cfb639f25e"),
)

_BY_SHA256 = {text.sha256: text for text in KNOWN_TEXTS}


def describe_variant(name: str, lines: int, source_sha256: str, target_sha256: str) -> str:
    """Say which published text a pair of texts is, for the log, the checkpoint and the score.

    Raises:
        DataError: both sides are published texts, but of different splits.
    """
    source, target = _BY_SHA256.get(source_sha256), _BY_SHA256.get(target_sha256)
    if source and target:
        if source.split != target.split:
            raise DataError(
                f"{name}: the sides do not belong together: the source is {_describe(source)}, "
                f"the target {_describe(target)} of Multi30k. Give two files of the same split."
            )
        edition = source.edition or target.edition
        return f"Multi30k {source.split} ({edition})" if edition else f"Multi30k {source.split}"
    if source:
        return f"Multi30k {_describe(source)} / {abridged(target_sha256)}"
    if target:
        return f"{abridged(source_sha256)} / Multi30k {_describe(target)}"
    unknown = abridged(source_sha256, target_sha256)
    if any(text.split == name and text.lines == lines for text in KNOWN_TEXTS):
        return f"{unknown} (as long as Multi30k {name}, but not the same)"
    return unknown


def _describe(text: KnownText) -> str:
    return f"{text.split}.{text.language}" + (f" ({text.edition})" if text.edition else "")
