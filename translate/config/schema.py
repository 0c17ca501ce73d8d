"""Every setting of a run: its name, type, range, default and meaning.

This is the only place where a setting is explained; docs/configuration.md is generated from it. It knows nothing about
YAML (see loading.py) or about the classes that a name stands for (see the build functions beside those classes).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Types are strict, so "12" is no number. Paths and tuples are the exceptions, because YAML has only strings and lists.
AnyPath = Annotated[Path, Field(strict=False)]
Split = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Betas = Annotated[tuple[Share, Share], Field(strict=False)]
PositiveInt = Annotated[int, Field(gt=0)]
Size = Annotated[int, Field(ge=1, le=10_000_000)]  # of something held in memory as a whole
Depth = Annotated[int, Field(ge=1, le=1000)]  # blocks, each of which takes time to build, however small
PositiveFloat = Annotated[float, Field(gt=0.0)]
MOST_RATIO = 1000.0  # of a translation's length to its source's: a model that never writes an end would go on for hours
Epsilon = Annotated[float, Field(ge=1e-30, le=1.0)]  # much smaller ones are 0 in float32


class Conflict(NamedTuple):
    """Settings that contradict each other; `keys` are their paths within the section that reports it."""

    message: str
    keys: tuple[str, ...]


class ConflictError(ValueError):
    """All contradictions within one section."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__("; ".join(conflict.message for conflict in conflicts))
        self.conflicts = conflicts


class Section(BaseModel):
    """A group of settings: frozen, strictly typed, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def conflicts(self) -> Iterator[Conflict]:
        """Contradictions between settings that are valid by themselves."""
        yield from ()

    @model_validator(mode="after")
    def _agree(self) -> "Section":
        if conflicts := list(self.conflicts()):
            raise ConflictError(conflicts)
        return self


# --- data: which text ------------------------------------------------------------------------------------------------


class FilePair(Section):
    """Two files that correspond line by line; plain, .gz or .zst."""

    source: AnyPath = Field(
        description="File with one source sentence per line. Wildcards, as in `crawl/*.de.gz`, take all matching files."
    )
    target: AnyPath = Field(
        description="File with the translations, line by line; with the same wildcards, as in `crawl/*.en.gz`."
    )


class Corpus(Section):
    """A training corpus: a split, or two files as for `valid`."""

    split: Split | None = Field(None, description="Name of a split in `root`. Or give source and target.")
    source: AnyPath | None = Field(None, description="File with one source sentence per line; wildcards allowed.")
    target: AnyPath | None = Field(
        None, description="File with the translations, line by line; with the same wildcards."
    )
    weight: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1,
        description="How many times each pair occurs in an epoch. Use it to give a small corpus its share beside a "
        "large one. Vocabularies count each pair once. A batch may hold a pair several times, because it has sentences "
        "of one length.",
    )
    vocabulary: bool = Field(
        True,
        description="Whether vocabularies are learned from this corpus. Set `false` for machine translations: the "
        "vocabularies then stay those of a model trained without them, so both models can form an ensemble.",
    )

    def conflicts(self) -> Iterator[Conflict]:
        files = [file for file in (self.source, self.target) if file is not None]
        if len(files) != (2 if self.split is None else 0):
            yield Conflict(
                "a corpus is either a split or two files; give split, or source and target",
                ("split", "source", "target"),
            )

    @classmethod
    def of(cls, text: "str | FilePair | Corpus") -> "Corpus":
        """The corpus that a short form stands for: the name of a split, or two files of validation text."""
        match text:
            case str():
                return cls(split=text)
            case FilePair():
                return cls(source=text.source, target=text.target)
        return text


class FilterConfig(Section):
    """Which training pairs are dropped, besides those with an empty side. Their numbers and the reasons are printed.

    Validation and test stay whole.
    """

    max_tokens: PositiveInt = Field(200, description="Drop pairs that have more tokens than this on either side.")
    max_ratio: PositiveFloat | None = Field(
        None, description="Drop pairs in which one side has more than this many times as many tokens as the other."
    )
    untranslated: bool = Field(
        True,
        description="Drop pairs in which a side has no letter or digit at all, such as the lines `@@` in Multi30k.",
    )


class CorpusConfig(Section):
    """Where the text is, of either kind."""

    kind: Literal["parallel", "labelled"]
    root: AnyPath = Field(
        Path("data"),
        description="Folder with the text files: `SPLIT.LANGUAGE` for parallel text, `SPLIT.tsv` for labelled text; "
        "plain, .gz or .zst.",
    )
    cache: AnyPath | None = Field(
        None,
        description="Folder for encoded corpora, reused while text and settings are unchanged. "
        "Default: checkpoints/.cache.",
    )


class DataConfig(CorpusConfig):
    """Parallel text: sentences and their translations."""

    kind: Literal["parallel"] = Field("parallel", description="Sentences and their translations.")
    source: str = Field("de", min_length=1, description="Source language: its code, which is also the file ending.")
    target: str = Field("en", min_length=1, description="Target language: its code, which is also the file ending.")
    train: Split | Corpus | Annotated[list[Split | Corpus], Field(min_length=1)] = Field(
        "train",
        description="Training text: the name of a split in `root`; or a corpus, such as two files; or a list of these.",
    )
    valid: Split | FilePair = Field(
        "val", description="Validation text: the name of a split in `root`, or two files, by name."
    )
    download: bool = Field(
        False, description="Download Multi30k, German and English, into `root` if that folder is missing."
    )
    filter: FilterConfig = Field(FilterConfig(), description="Which training pairs are dropped.")

    @property
    def corpora(self) -> list[Corpus]:
        """The training text: one corpus or several."""
        return [Corpus.of(text) for text in (self.train if isinstance(self.train, list) else [self.train])]

    @property
    def splits(self) -> list[str]:
        """Those splits of `root` that are training or validation text."""
        return [text.split for text in (*self.corpora, Corpus.of(self.valid)) if text.split is not None]

    def conflicts(self) -> Iterator[Conflict]:
        if not any(corpus.vocabulary for corpus in self.corpora):
            yield Conflict(
                "train has no corpus to learn vocabularies from; set vocabulary: true for at least one", ("train",)
            )
        if self.source == self.target and self.splits:
            yield Conflict(
                f"source and target are both {self.source!r}, but must tell the files of a split apart; name two "
                "languages, or, for text in one language, two files each in train and valid",
                ("source", "target"),
            )


class LabelledFilterConfig(Section):
    """Which labelled training texts are dropped, besides empty ones. Validation and test stay whole."""

    max_tokens: PositiveInt = Field(200, description="Drop texts with more tokens than this.")


class LabelledDataConfig(CorpusConfig):
    """Labelled text: one `label<TAB>text` per line."""

    kind: Literal["labelled"] = Field("labelled", description="Texts, each with a label.")
    source: str = Field("de", min_length=1, description="Language of the texts: its code, for the tokenizer.")
    train: Split = Field("train", description="Training text: the name of a split in `root`.")
    valid: Split = Field("val", description="Validation text: the name of a split in `root`.")
    filter: LabelledFilterConfig = Field(LabelledFilterConfig(), description="Which training texts are dropped.")

    @property
    def target(self) -> None:
        """Labels have no language."""


# --- text: strings to ids --------------------------------------------------------------------------------------------


class WordTokenizerConfig(Section):
    """Words, split by spaCy, with a vocabulary of the most frequent ones."""

    kind: Literal["word"] = Field("word", description="Words of spaCy's tokenizer.")
    lowercase: bool = Field(False, description="Lower-case the text before anything else.")
    min_freq: Size = Field(1, description="Keep words that occur at least this often in the training text.")
    max_size: Size | None = Field(None, description="Keep at most this many words, not counting specials.")
    source_model: str | None = Field(
        None,
        description="spaCy model whose tokenizer splits the source. Default: `spacy.blank(language)`, which needs no "
        "download.",
    )
    target_model: str | None = Field(None, description="The same for the target.")


class CharTokenizerConfig(Section):
    """Single characters (Unicode code points)."""

    kind: Literal["char"] = Field("char", description="Single characters.")
    lowercase: bool = Field(False, description="Lower-case the text before anything else.")
    min_freq: Size = Field(1, description="Keep characters that occur at least this often.")


class ByteTokenizerConfig(Section):
    """The bytes of UTF-8: 256 tokens, the same for every language. Nothing is ever unknown."""

    kind: Literal["byte"] = Field("byte", description="Bytes of UTF-8.")


class SubwordConfig(Section):
    """What all kinds of subwords have in common."""

    kind: Literal["bpe", "wordpiece", "unigram"]
    lowercase: bool = Field(False, description="Lower-case the text before anything else.")
    truecase: bool = Field(
        False,
        description="Give the first word of a line the case it has elsewhere in the training text. Translations then "
        "begin with a capital letter. Text whose lines mostly begin with a small letter stays as it is.",
    )
    character_coverage: float = Field(
        1.0,
        gt=0.0,
        le=1.0,
        description="Learn only from the most frequent characters, which together make up this share of the training "
        "text. The others get no piece. For text from the web, with characters of many scripts, try 0.9999.",
    )

    def conflicts(self) -> Iterator[Conflict]:
        if self.lowercase and self.truecase:
            yield Conflict(
                "lowercase leaves truecase nothing to do; set only one of the two", ("lowercase", "truecase")
            )


ByteFallback = Annotated[
    bool,
    Field(description="Split characters that the training text lacks into bytes, so that nothing is ever unknown."),
]


class BpeTokenizerConfig(SubwordConfig):
    """Byte-pair encoding of characters (Sennrich et al., 2016): subwords, merged from frequent pairs."""

    kind: Literal["bpe"] = Field("bpe", description="Byte-pair encoding.")
    vocab_size: Size = Field(
        6000, description="Maximum number of pieces to learn, not counting specials and the bytes of byte_fallback."
    )
    min_freq: Size = Field(2, description="Merge only pairs that occur at least this often.")
    byte_fallback: ByteFallback = False
    dropout: Share = Field(
        0.0,
        description="BPE-dropout (Provilkov et al., 2020): leave out each merge with this probability during training, "
        "so that every epoch segments the text differently; try 0.1.",
    )


class WordPieceTokenizerConfig(SubwordConfig):
    """WordPiece as in BERT (Devlin et al., 2019): learned by merging like BPE; splits off the longest piece first."""

    kind: Literal["wordpiece"] = Field("wordpiece", description="WordPiece.")
    vocab_size: Size = Field(6000, description="Maximum number of pieces to learn, not counting specials.")
    min_freq: Size = Field(2, description="Merge only pairs that occur at least this often.")


class UnigramTokenizerConfig(SubwordConfig):
    """Unigram language model (Kudo, 2018): pieces have probabilities, and text is split in the most probable way."""

    kind: Literal["unigram"] = Field("unigram", description="Unigram language model.")
    vocab_size: Size = Field(
        6000, description="Maximum number of pieces to learn, not counting specials and the bytes of byte_fallback."
    )
    byte_fallback: ByteFallback = False


class TextConfig(Section):
    """How text becomes token ids, and back."""

    tokenizer: Annotated[
        WordTokenizerConfig
        | CharTokenizerConfig
        | ByteTokenizerConfig
        | BpeTokenizerConfig
        | WordPieceTokenizerConfig
        | UnigramTokenizerConfig,
        Field(discriminator="kind"),
    ] = Field(WordTokenizerConfig(), description="How text is split into tokens.")
    joint_vocabulary: bool = Field(False, description="One vocabulary for both languages instead of one for each.")


# --- model -----------------------------------------------------------------------------------------------------------


class EncoderConfig(Section):
    """The embedding and the encoder, with the settings that they share with a decoder."""

    kind: Literal["transformer", "classifier"]
    d_model: Size = Field(
        256, description="Width of the model (hidden size): length of the vector of each token between the blocks."
    )
    ffn: Size = Field(1024, description="Width of the hidden layer in the feed-forward blocks.")
    encoder_layers: Depth = Field(3, description="Number of encoder blocks.")
    heads: Size = Field(
        8, description="Number of attention heads. Must divide d_model unless both d_qk and d_v are given."
    )
    d_qk: Size | None = Field(None, description="Width of queries and keys in each head. Default: d_model / heads.")
    d_v: Size | None = Field(None, description="Width of values in each head. Default: d_model / heads.")
    qkv_bias: bool = Field(
        True,
        description="Whether the projections to queries, keys and values have a bias. The output projection always has "
        "one.",
    )
    qk_norm: bool = Field(
        False, description="Apply a layer norm to queries and keys in each head, which allows a higher learning rate."
    )
    dropout: Share = Field(0.1, description="Dropout on the embeddings and on the output of every sub-layer.")
    attention_dropout: Share = Field(0.0, description="Dropout on the attention weights.")
    ffn_dropout: Share = Field(0.0, description="Dropout inside the feed-forward block, after the activation.")
    norm: Literal["pre", "post"] = Field(
        "pre", description="pre: layer norm before each sub-layer. post: layer norm after its residual sum."
    )
    activation: Literal["relu", "gelu"] = Field(
        "relu", description="Activation in the feed-forward blocks. gelu: Hendrycks and Gimpel (2016)."
    )
    positions: Literal["sinusoidal", "learned", "rotary"] = Field(
        "sinusoidal",
        description="How positions are encoded. sinusoidal, learned: a vector, fixed or learned, is added to each "
        "embedding. rotary: queries and keys are rotated by angles that grow with their positions (Su et al., 2021), "
        "in cross-attention, too.",
    )
    max_positions: Size = Field(
        512,
        description="Longest sentence for learned positions, in tokens, including the end token. The other kinds have "
        "no limit.",
    )
    embedding_norm_eps: PositiveFloat | None = Field(
        None, description="Apply a layer norm with this epsilon to the embeddings. Default: no norm."
    )
    embedding_init: Literal["normal", "xavier"] = Field(
        "normal",
        description="Initial values of embeddings. normal: drawn so that embeddings are about as large as position "
        "encodings. xavier: Xavier's uniform distribution, as for all other matrices; embeddings start smaller, and "
        "change faster.",
    )

    def conflicts(self) -> Iterator[Conflict]:
        uneven = self.d_model % self.heads != 0
        if uneven and None in (self.d_qk, self.d_v):
            divisors = [n for n in range(1, min(64, self.d_model) + 1) if self.d_model % n == 0]
            yield Conflict(
                f"heads: {self.heads} does not divide d_model: {self.d_model}; possible: {divisors}",
                ("heads", "d_model"),
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            yield Conflict(f"sinusoidal positions need an even d_model, not {self.d_model}", ("d_model", "positions"))
        d_qk = self.d_qk or (0 if uneven else self.d_model // self.heads)
        if self.positions == "rotary" and d_qk % 2:
            yield Conflict(
                f"rotary positions need an even d_qk (by default d_model / heads), not {d_qk}", ("d_qk", "positions")
            )


class ModelConfig(EncoderConfig):
    """The encoder-decoder transformer."""

    kind: Literal["transformer"] = Field("transformer", description="Encoder and decoder; translates.")
    decoder_layers: Depth = Field(3, description="Number of decoder blocks.")
    tie: Literal["none", "target", "all"] = Field(
        "target",
        description="Which weights are shared. target: the target embedding is the output projection. all: the source "
        "embedding, too, which needs a joint vocabulary.",
    )


class ClassifierConfig(EncoderConfig):
    """The encoder alone, with the mean over its output and a linear layer; finds the label of a text."""

    kind: Literal["classifier"] = Field("classifier", description="Encoder, mean and a linear layer; labels text.")


# --- training --------------------------------------------------------------------------------------------------------


class BatchConfig(Section):
    """How sentence pairs are batched. A batch holds pairs of similar length and fits both limits.

    A pair that exceeds max_tokens by itself is a batch of its own.
    """

    max_tokens: PositiveInt = Field(
        4096,
        description="Batch size: maximum number of tokens on the longer side of a batch, including padding (number of "
        "rows times longest sentence).",
    )
    max_sentences: PositiveInt | None = Field(None, description="Maximum number of sentence pairs in a batch.")
    accumulate: PositiveInt = Field(
        1,
        description="Gradient accumulation: number of batches whose gradients are summed for each update. Several "
        "processes get equally many of these batches; each one left over is split among all processes.",
    )


class AdamConfig(Section):
    """Adam (Kingma and Ba, 2015)."""

    kind: Literal["adam"] = Field("adam", description="Adam.")
    lr: PositiveFloat = Field(5e-4, description="Peak learning rate.")
    betas: Betas = Field(
        (0.9, 0.98), description="Decay of the running means of the gradient and the squared gradient."
    )
    eps: Epsilon = Field(1e-9, description="Added to the denominator.")


class AdamWConfig(Section):
    """AdamW (Loshchilov and Hutter, 2019): Adam with decoupled weight decay."""

    kind: Literal["adamw"] = Field("adamw", description="AdamW.")
    lr: PositiveFloat = Field(1e-3, description="Peak learning rate.")
    betas: Betas = Field(
        (0.9, 0.98), description="Decay of the running means of the gradient and the squared gradient."
    )
    eps: Epsilon = Field(1e-9, description="Added to the denominator.")
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(
        0.01,
        description="Decoupled weight decay on the matrices between layers. Embeddings, output layer, norms and biases "
        "have none.",
    )


class MuonConfig(Section):
    """Muon (Jordan et al., 2024) for the matrices between layers; AdamW for embeddings, output layer and the rest."""

    kind: Literal["muon"] = Field("muon", description="Muon for the matrices between layers, AdamW for the rest.")
    lr: PositiveFloat = Field(
        3e-3, description="Peak learning rate of both optimizers: Muon's updates are scaled to AdamW's size."
    )
    momentum: Share = Field(0.95, description="Decay of Muon's running mean of gradients.")
    betas: Betas = Field((0.9, 0.98), description="AdamW's decay of the running means.")
    eps: Epsilon = Field(1e-9, description="Added to AdamW's denominator.")
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(
        0.01, description="Decoupled weight decay on Muon's matrices."
    )


class ConstantScheduleConfig(Section):
    """The peak rate throughout, after an optional warm-up."""

    kind: Literal["constant"] = Field("constant", description="Constant at the peak.")
    warmup_steps: Annotated[int, Field(ge=0)] = Field(0, description="Number of updates of linear warm-up.")


class InverseSqrtScheduleConfig(Section):
    """Linear warm-up, then decay with the inverse square root of the update (Vaswani et al., 2017)."""

    kind: Literal["inverse_sqrt"] = Field("inverse_sqrt", description="Inverse square root decay.")
    warmup_steps: PositiveInt = Field(400, description="Number of updates of linear warm-up.")


class DecayConfig(Section):
    """What the schedules that end at the last update have in common."""

    kind: Literal["cosine", "linear"]
    warmup_steps: Annotated[int, Field(ge=0)] = Field(400, description="Number of updates of linear warm-up.")
    final_share: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.0, description="Final rate, as a share of the peak rate."
    )


class CosineScheduleConfig(DecayConfig):
    """Linear warm-up, then half a cosine down to a share of the peak rate at the last update."""

    kind: Literal["cosine"] = Field("cosine", description="Cosine decay.")


class LinearScheduleConfig(DecayConfig):
    """Linear warm-up, then a straight line down to a share of the peak rate at the last update."""

    kind: Literal["linear"] = Field("linear", description="Linear decay.")


class TrainingConfig(Section):
    """How the model is trained."""

    start_from: AnyPath | None = Field(
        None,
        description="Model file to start training from, with its weights and vocabularies; for training further on "
        "other text. Its languages and its sections `model` and `text` must be the same, except for dropout. It is "
        "validated before the first update, and may remain the best model. Default: new weights and vocabularies.",
    )
    max_epochs: PositiveInt | None = Field(10, description="Stop after this many passes over the training text.")
    max_steps: PositiveInt | None = Field(None, description="Stop after this many updates.")
    batch: BatchConfig = Field(BatchConfig(), description="How sentence pairs are batched.")
    optimizer: Annotated[AdamConfig | AdamWConfig | MuonConfig, Field(discriminator="kind")] = Field(
        AdamWConfig(), description="The optimizer."
    )
    schedule: Annotated[
        ConstantScheduleConfig | InverseSqrtScheduleConfig | CosineScheduleConfig | LinearScheduleConfig,
        Field(discriminator="kind"),
    ] = Field(InverseSqrtScheduleConfig(), description="How the learning rate changes from update to update.")
    label_smoothing: Share = Field(
        0.1, description="Label smoothing: share of the target probability that is spread over all tokens."
    )
    r_drop: Annotated[float, Field(ge=0.0, le=1000.0)] = Field(
        0.0,
        description="Weight of R-Drop (Liang et al., 2021): each batch passes through the model twice, with different "
        "dropout, and a further loss makes the two outputs similar. An update takes 1.6 to 2 times as long. 0 switches "
        "it off.",
    )
    clip_norm: PositiveFloat | None = Field(
        1.0, description="Gradient clipping: maximum 2-norm of the gradient; longer gradients are scaled down."
    )
    parallel: Literal["ddp", "fsdp"] = Field(
        "ddp",
        description="With more than one process. ddp: each has a copy of the model. fsdp: weights, gradients and "
        "optimizer state are sharded, which takes less memory and more time.",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="Arithmetic of the forward and backward pass. auto: on a GPU, bfloat16 if it has that in hardware; "
        "on a CPU, bfloat16 if that is clearly faster for batches and models of this size. This is measured at each "
        "start, so set the same precision for all runs that you want to compare.",
    )
    activation_checkpointing: bool = Field(
        False,
        description="Keep only the inputs of each block, and recompute the rest for the gradient (Chen et al., 2016): "
        "far less memory, and updates that take up to a third longer. It switches off workers and CUDA graphs (see "
        "`plain`); weights become the same as without it, with one worker.",
    )
    plain: list[Literal["attention", "dropout", "rows", "projection", "loss", "memory", "workers", "graphs"]] = Field(
        [],
        description="Optimizations to switch off, if you suspect one of an error. On CPUs: attention (its steps one by "
        "one in place of PyTorch's operator), dropout (with 16 random bits per element), rows (padding matrices in "
        "bfloat16 to few distinct numbers of rows), projection (aligning rows of scores in float32 to cache lines), "
        "loss (computing its gradient in the forward pass), memory (keeping freed memory for later tensors), workers "
        "(two threads in one process, each with half of an update; they need the fast attention and dropout). On a GPU "
        "with one process: graphs (recording updates, and replaying them as CUDA graphs).",
    )
    validate_every: PositiveInt | None = Field(
        None, description="Updates between validations. Default: once per epoch."
    )
    checkpoint_every: PositiveInt | None = Field(
        None, description="Updates between saved training states, in addition to the one at every validation."
    )
    keep_last: PositiveInt = Field(2, description="Number of training states to keep.")
    average_last: Annotated[int, Field(ge=2)] | None = Field(
        None,
        description="Checkpoint averaging: at the end, average the weights of this many last validations, validate the "
        "average as well, and keep it if it is the best model.",
    )
    best: Literal["bleu", "chrf", "accuracy", "loss"] | None = Field(
        None,
        description="The validation metric that selects the best model. accuracy: the share of correct tokens or "
        "labels. loss: minus the log-probability, without smoothing. If a metric is the same twice (bleu and chrf to "
        "two decimal places), the loss decides. Default: bleu for translations, accuracy for labels.",
    )
    patience: PositiveInt | None = Field(
        None, description="Early stopping: stop after this many validations in a row without a better metric."
    )
    log_every: PositiveInt = Field(
        50,
        description="Updates between rows of the metrics log, and between console lines if that is not a terminal.",
    )
    samples: Annotated[int, Field(ge=0, le=10_000)] = Field(
        3, description="Number of translations shown at each validation."
    )

    def conflicts(self) -> Iterator[Conflict]:
        if self.max_epochs is None and self.max_steps is None:
            yield Conflict(
                "max_epochs and max_steps are both null; give at least one of them", ("max_epochs", "max_steps")
            )


# --- decoding --------------------------------------------------------------------------------------------------------


class DecodingConfig(Section):
    """How a trained model searches for a translation. Validation during training always searches greedily."""

    search: Literal["greedy", "beam", "sample"] = Field(
        "beam",
        description="greedy: the best token at each step. beam: beam search. sample: tokens drawn at random, with the "
        "probabilities that the model gives them.",
    )
    beam_size: Annotated[int, Field(ge=1, le=1000)] = Field(
        5, description="Number of hypotheses kept for each sentence."
    )
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = Field(
        1.0,
        description="Exponent a in score = log-probability / length^a (after Wu et al., 2016). 0 ranks by "
        "log-probability alone.",
    )
    temperature: Annotated[float, Field(ge=0.01, le=100.0)] = Field(
        1.0,
        description="Sampling: log-probabilities are divided by this before a token is drawn. Below 1, probable tokens "
        "are drawn more often than the model says.",
    )
    top_k: PositiveInt | None = Field(
        None, description="Sampling: draw from this many most probable tokens only. Default: the whole vocabulary."
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(
        1,
        description="Sampling: the random seed. With the same seed, line N of a text always gets the same translation.",
    )
    max_ratio: Annotated[float, Field(gt=0.0, le=MOST_RATIO)] | None = Field(
        None,
        description="Maximum number of target tokens for each source token; max_extra come on top. Default: 1.5 times "
        "the ratio that 99 in 100 training pairs need, and at least 2.",
    )
    max_extra: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        10, description="Number of target tokens allowed on top of max_ratio; the end token is not counted."
    )
    max_source: PositiveInt = Field(
        1000,
        description="Source lines are truncated to this many tokens; a warning says so.",
    )
    batch_tokens: PositiveInt = Field(
        4096,
        description="Batch size in source tokens, including padding; smaller if memory runs out. On a CPU, two workers "
        "share it: each searches batches of half the size.",
    )


# --- the whole -------------------------------------------------------------------------------------------------------


class Config(Section):
    """One run, from text to model."""

    output: AnyPath | None = Field(
        None,
        description="Folder of the run: model, training states, logs. Default: checkpoints/NAME OF THE CONFIG FILE.",
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(
        1, description="Seed of everything random in training: weights, order, dropout."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where to compute. auto: CUDA if it is available."
    )
    processes: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None,
        description="Number of processes that train together, unless torchrun starts them. Default: one.",
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None,
        description="CPU threads of each process. Default: PyTorch's choice, divided between the processes.",
    )
    data: Annotated[DataConfig | LabelledDataConfig, Field(discriminator="kind")] = Field(
        DataConfig(), description="Which text to read."
    )
    text: TextConfig = Field(TextConfig(), description="How text becomes token ids.")
    model: Annotated[ModelConfig | ClassifierConfig, Field(discriminator="kind")] = Field(
        ModelConfig(), description="The model."
    )
    training: TrainingConfig = Field(TrainingConfig(), description="How it is trained.")
    decoding: DecodingConfig = Field(DecodingConfig(), description="How it translates.")

    @model_validator(mode="before")
    @classmethod
    def _usual_kinds(cls, values: Any) -> Any:
        """Fill in the default kind of data and model where none is given, as in files from before there were others."""
        usual = {"data": "parallel", "model": "transformer"}
        if not isinstance(values, dict):
            return values
        named = {key: {"kind": kind} | values[key] for key, kind in usual.items() if isinstance(values.get(key), dict)}
        return values | named

    def conflicts(self) -> Iterator[Conflict]:
        labelled = self.data.kind == "labelled"
        if labelled and self.model.kind != "classifier":
            yield Conflict(
                "data.kind: labelled is text for a classifier; set model.kind: classifier", ("data.kind", "model.kind")
            )
        if self.model.kind == "classifier" and not labelled:
            yield Conflict(
                "model.kind: classifier learns from labelled text; set data.kind: labelled", ("model.kind", "data.kind")
            )
        if labelled and self.training.best in ("bleu", "chrf"):
            yield Conflict(
                f"training.best: {self.training.best} is a score of translations; for labels use accuracy or loss",
                ("training.best", "data.kind"),
            )
        if labelled and self.training.start_from is not None:
            yield Conflict(
                "training.start_from is for translation: other text may have other labels; leave it out",
                ("training.start_from", "data.kind"),
            )
        if labelled and self.text.joint_vocabulary:
            yield Conflict(
                "text.joint_vocabulary is for two languages, and labelled text has one; set it to false",
                ("text.joint_vocabulary", "data.kind"),
            )
        if labelled and isinstance(self.text.tokenizer, WordTokenizerConfig) and self.text.tokenizer.target_model:
            yield Conflict(
                "text.tokenizer.target_model tokenizes translations, and labels are not tokenized; leave it out",
                ("text.tokenizer.target_model", "data.kind"),
            )
        if isinstance(self.model, ModelConfig) and self.model.tie == "all" and not self.text.joint_vocabulary:
            yield Conflict(
                "model.tie: all shares one embedding between both languages; set text.joint_vocabulary: true, or "
                "model.tie: target",
                ("model.tie", "text.joint_vocabulary"),
            )
