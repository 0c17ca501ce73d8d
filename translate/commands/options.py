"""Options that translate.py and evaluate.py share: which models search, and how."""

import argparse
from pathlib import Path


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add `checkpoint`, `search`, `beam_size`, `length_penalty` and `device`; what is left out is as in the model."""
    parser.add_argument(
        "--checkpoint",
        type=Path,
        action="append",
        metavar="FILE",
        help="model file; several times for an ensemble; default: of the newest finished run in checkpoints/",
    )
    parser.add_argument("--search", choices=("greedy", "beam"), help="default: as the model was configured")
    parser.add_argument("--beam-size", type=int, metavar="K", help="hypotheses kept alive in beam search")
    parser.add_argument("--length-penalty", type=float, metavar="A", help="exponent of the length in the score")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
