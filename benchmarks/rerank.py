"""The best translation among those of several systems, judged by all of them and by a model of the other direction.

    python benchmarks/rerank.py --data FOLDER --system MODEL[,MODEL…] [--system …]
                                [--reverse MODEL[,MODEL…]] [--n-best 12] [--input FILE --output FILE]

Each system, a model or an ensemble of models with the same vocabularies, translates val and test with a
beam and offers its best translations. Systems may cut text in different ways, because what is compared is text. A
translation's score is

    (the mean over systems of its log-probability + W times that of the source given the translation)
    divided by (words + 1) ** A

and A and W are chosen on val (noisy-channel reranking: Yee et al., 2019; Ng et al., 2019; here without a language
model). Prints BLEU (sacrebleu 13a, with case) of each system and of the choice, and the p-value of a paired bootstrap
between the choice and the system that is best on val. With --input it then translates that file, line by line.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

from translate import Translator
from translate.commands.options import at_least
from translate.commands.output import open_output
from translate.commands.run import run
from translate.commands.translate import refuse_to_replace
from translate.data.corpora import corpora_of
from translate.data.corpus import TextInMemory
from translate.data.lines import read_lines
from translate.data.splits import open_split
from translate.errors import ConfigError
from translate.evaluation.bleu import corpus_bleu
from translate.system.allocation import keep_memory

EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
IMPOSSIBLE = -1e9  # in place of minus infinity, which times 0 is not a number
REVERSE_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


class Candidates(NamedTuple):
    """Translations of the lines of a split, grouped by line.

    Args:
        lines: the number of the line that each translates.
        texts: the translations, each once per line.
        forward: mean log-probability over systems.
        reverse: log-probability of the source; zeros if there is no model for it.
        firsts: the best translation of every line by each system alone.
    """

    lines: NDArray[np.int64]
    texts: list[str]
    forward: NDArray[np.float64]
    reverse: NDArray[np.float64]
    firsts: list[list[str]]

    def choose(self, exponent: float, weight: float) -> list[str]:
        """The best translation of each line."""
        words = np.array([len(text.split()) for text in self.texts])
        scores = (self.forward + weight * self.reverse) / (words + 1) ** exponent
        best: dict[int, int] = {}
        for place, line in enumerate(self.lines.tolist()):
            if line not in best or scores[place] > scores[best[line]]:
                best[line] = place
        return [self.texts[best[line]] for line in sorted(best)]


def gather(source: list[str], systems: list[Translator], reverse: Translator | None, n_best: int) -> Candidates:
    """What all systems offer for some lines, and how probable the systems together find it."""
    offers = [system.n_best(source, n_best, system.settings(search="beam", beam_size=n_best)) for system in systems]
    lines, texts = [], []
    for line in range(len(source)):
        for translation in unique(each.text for offer in offers for each in offer[line]):
            lines.append(line)
            texts.append(translation)
    sources = [source[line] for line in lines]
    return Candidates(
        np.array(lines),
        texts,
        np.mean([log_probabilities(system, sources, texts) for system in systems], axis=0),
        np.maximum(log_probabilities(reverse, texts, sources), IMPOSSIBLE) if reverse else np.zeros(len(texts)),
        [[bests[0].text for bests in offer] for offer in offers],
    )


def log_probabilities(system: Translator, sources: list[str], targets: list[str]) -> list[float]:
    """Those of each target given its source; without warnings, which would count candidates as lines."""
    ids = system.saved.source.encode(sources), system.saved.target.encode(targets)
    return system.log_probabilities_of_ids(*ids, system.settings())


def unique(texts: Iterable[str]) -> list[str]:
    """Each text once, in order of first appearance."""
    return list(dict.fromkeys(texts))


def p_value(system: list[str], baseline: list[str], references: list[str]) -> float:
    """How often chance would make a difference as large, by sacrebleu's paired bootstrap."""
    test = PairedTest(
        [("baseline", baseline), ("system", system)], {"BLEU": BLEU()}, [references], test_type="bs", n_samples=1000
    )
    _, scores = test()
    other, result = scores["BLEU"]
    assert isinstance(other, Result)
    assert isinstance(result, Result)
    assert result.p_value is not None
    # sacrebleu counts larger differences only: of systems with equal scores, it would say that chance makes none.
    return 1.0 if result.score == other.score else float(result.p_value)


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with val and test, such as that of Multi30k")
    parser.add_argument(
        "--system", type=models, action="append", required=True, help="a model file, or several separated by commas"
    )
    parser.add_argument("--reverse", type=models, help="a model of the other direction, or several")
    parser.add_argument("--n-best", type=at_least(1), default=12)
    parser.add_argument("--input", type=Path, help="a file to translate with what was chosen")
    parser.add_argument("--output", type=Path, help="where to write its translations")
    args = parser.parse_args()
    if (args.input is None) != (args.output is None):
        parser.error("--input and --output go together")
    return run(lambda: rerank(args))


def models(names: str) -> list[str]:
    """An option's value: files separated by commas."""
    files = names.split(",")
    if not all(files):
        raise argparse.ArgumentTypeError(f"{names!r} has no name before or after a comma")
    return files


def load(files: list[str], languages: tuple[str, str] | None = None) -> Translator:
    """A model or an ensemble. ConfigError if it does not translate, or not between these languages."""
    system = Translator.load(files)
    if system.predicts_labels:
        raise ConfigError(f"{','.join(files)} labels text; give models that translate")
    own = system.saved.languages
    if languages not in (None, own):
        raise ConfigError(f"{','.join(files)} translates {' to '.join(own)}; give models for {' to '.join(languages)}")
    return system


def rerank(args: argparse.Namespace) -> None:
    """Translate, choose on val, and print the table."""
    keep_memory()
    files = [Path(file) for names in (*args.system, args.reverse or ()) for file in names]
    refuse_to_replace(args.output, {"the model": files, "the text to translate": [args.input]})
    source = read_lines(args.input) if args.input else []  # first, so that a wrong name shows at once
    first = load(args.system[0])
    languages = first.saved.languages
    systems = [first, *(load(names, languages) for names in args.system[1:])]
    reverse = load(args.reverse, languages[::-1]) if args.reverse else None
    data = first.config.data.model_copy(update={"root": args.data})
    refuse_to_replace(args.output, {"a file of --data": corpora_of(data).files()})
    assert data.target is not None
    texts = {split: open_split(args.data, split, data.source, data.target).in_memory() for split in ("val", "test")}
    with open_output(args.output) as output:  # already, so that a file that cannot be written shows at once
        settings = choose(texts, args, systems, reverse)
        if args.input:
            lines = gather(source, systems, reverse, args.n_best).choose(*settings)
            output.writelines(f"{line}\n" for line in lines)


def choose(
    texts: dict[str, TextInMemory], args: argparse.Namespace, systems: list[Translator], reverse: Translator | None
) -> tuple[float, float]:
    """A and W, as val says; prints the table."""
    found = {split: gather(text.source, systems, reverse, args.n_best) for split, text in texts.items()}

    def bleu(split: str, translations: list[str]) -> float:
        return corpus_bleu(translations, texts[split].target, systems[0].saved.target.language)

    grid = [(exponent, weight) for exponent in EXPONENTS for weight in (REVERSE_WEIGHTS if reverse else (0.0,))]
    settings = max(grid, key=lambda values: bleu("val", found["val"].choose(*values)))
    names = [",".join(files) for files in args.system]
    firsts = {name: [found[split].firsts[i] for split in texts] for i, name in enumerate(names)}
    chosen = [found[split].choose(*settings) for split in texts]
    print(f"{'':<44}{'val':>8}{'test':>8}")
    for name, translations in (*firsts.items(), (f"chosen, A = {settings[0]:g}, W = {settings[1]:g}", chosen)):
        scores = [bleu(split, each) for split, each in zip(texts, translations, strict=True)]
        print(f"{'…' * (len(name) > 43) + name[-42:]:<44}{scores[0]:>8.2f}{scores[1]:>8.2f}")
    best = max(firsts.values(), key=lambda translations: bleu("val", translations[0]))
    values = [p_value(c, b, text.target) for c, b, text in zip(chosen, best, texts.values(), strict=True)]
    print(f"{'p of chosen beside the best system on val':<44}{values[0]:>8.3f}{values[1]:>8.3f}")
    return settings


if __name__ == "__main__":
    sys.exit(main())
