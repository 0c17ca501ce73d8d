"""Every setting of a run: its name, type, range, default and meaning.

This is the one place where a setting is explained; docs/configuration.md is made from it. It knows nothing about YAML
(see loading.py) nor about the classes that a name stands for (see the build functions beside those classes).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Strict types refuse "12" for a number; a path is the exception, because YAML knows only strings.
AnyPath = Annotated[Path, Field(strict=False)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Betas = Annotated[tuple[Share, Share], Field(strict=False)]
PositiveInt = Annotated[int, Field(gt=0)]
Size = Annotated[int, Field(ge=1, le=10_000_000)]  # of what is held in memory, all of it
PositiveFloat = Annotated[float, Field(gt=0.0)]
Epsilon = Annotated[float, Field(ge=1e-30, le=1.0)]  # below, float32 has 0 in its place


class Clash(NamedTuple):
    """Settings that contradict each other; `keys` are their paths from the section that says so."""

    message: str
    keys: tuple[str, ...]


class ClashError(ValueError):
    """All that contradicts each other in one section."""

    def __init__(self, clashes: list[Clash]) -> None:
        super().__init__("; ".join(clash.message for clash in clashes))
        self.clashes = clashes


class Section(BaseModel):
    """A group of settings: frozen, strictly typed, and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def clashes(self) -> Iterator[Clash]:
        """Contradictions between settings that are sound by themselves."""
        yield from ()

    @model_validator(mode="after")
    def _agree(self) -> "Section":
        if clashes := list(self.clashes()):
            raise ClashError(clashes)
        return self


# --- data: which text ------------------------------------------------------------------------------------------------


class FilePair(Section):
    """Two files whose lines belong together, plain, .gz or .zst."""

    source: AnyPath = Field(
        description="File with one source sentence a line; with wildcards, as in `crawl/*.de.gz`, all files that fit."
    )
    target: AnyPath = Field(
        description="File with the translations, line by line; with the same wildcards, as in `crawl/*.en.gz`."
    )


class Corpus(Section):
    """One of several corpora to train on: a split, or two files as above."""

    split: str | None = Field(None, min_length=1, description="A name in `root`; or give source and target.")
    source: AnyPath | None = Field(None, description="File with one source sentence a line; wildcards allowed.")
    target: AnyPath | None = Field(
        None, description="File with the translations, line by line; with the same wildcards."
    )
    weight: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1,
        description="How many times an epoch has each pair, so that a small corpus keeps its share beside a large one. "
        "Vocabularies are learned from each pair once.",
    )
    vocabulary: bool = Field(
        True,
        description="Whether vocabularies are learned from it. Without machine translations among their text they stay "
        "those of a model that was trained without them, and both can translate together.",
    )

    def clashes(self) -> Iterator[Clash]:
        if [self.source is None, self.target is None] != [self.split is not None] * 2:
            yield Clash(
                "a corpus is either a split or two files; give split, or source and target",
                ("split", "source", "target"),
            )


class FilterConfig(Section):
    """Which training pairs are left out. What was dropped is printed, and why; validation and test stay whole."""

    max_tokens: PositiveInt = Field(200, description="Drop pairs with more tokens than this on either side.")
    max_ratio: PositiveFloat | None = Field(
        None, description="Drop pairs in which one side has more than this many times the tokens of the other."
    )
    untranslated: bool = Field(
        True,
        description="Drop pairs in which a side has no letter or digit at all, such as the lines `@@` of Multi30k.",
    )


class CorpusConfig(Section):
    """Where text lies, of whatever kind."""

    kind: Literal["parallel", "labelled"]
    root: AnyPath = Field(
        Path("data"),
        description="Folder with the files `SPLIT.LANGUAGE` of parallel or `SPLIT.tsv` of labelled text, plain, .gz or "
        ".zst.",
    )
    cache: AnyPath | None = Field(
        None,
        description="Folder for encoded corpora, used again while text and settings stay. Default: checkpoints/.cache.",
    )


class DataConfig(CorpusConfig):
    """Parallel text: sentences and their translations."""

    kind: Literal["parallel"] = Field("parallel", description="Sentences and their translations.")
    source: str = Field("de", min_length=1, description="Language to translate from: its code, also the file ending.")
    target: str = Field("en", min_length=1, description="Language to translate into: its code, also the file ending.")
    train: str | FilePair | Annotated[list[str | Corpus], Field(min_length=1)] = Field(
        "train",
        description="Training split: a name in `root`, or two files by name; or a list of corpora, each a name in "
        "`root` or a section.",
    )
    valid: str | FilePair = Field("val", description="Validation split: a name in `root`, or two files by name.")
    download: bool = Field(False, description="Download Multi30k into `root` where that folder is missing.")
    filter: FilterConfig = Field(FilterConfig(), description="Which training pairs are left out.")

    def clashes(self) -> Iterator[Clash]:
        if isinstance(self.train, list) and not any(isinstance(each, str) or each.vocabulary for each in self.train):
            yield Clash(
                "no corpus of train is left to learn vocabularies from; let one have vocabulary: true", ("train",)
            )
        corpora = [*(self.train if isinstance(self.train, list) else [self.train]), self.valid]
        splits = [each for each in corpora if isinstance(each, str) or (isinstance(each, Corpus) and each.split)]
        if self.source == self.target and splits:
            yield Clash(
                f"source and target are both {self.source!r}, which is to tell the files of a split apart; name two "
                "languages, or, for text of one language, two files in train and in valid",
                ("source", "target"),
            )


class LabelledFilterConfig(Section):
    """Which labelled training texts are left out, beside empty ones; validation and test stay whole."""

    max_tokens: PositiveInt = Field(200, description="Drop texts with more tokens than this.")


class LabelledDataConfig(CorpusConfig):
    """Labelled text: one `label<TAB>text` a line."""

    kind: Literal["labelled"] = Field("labelled", description="Texts with a label each.")
    source: str = Field("de", min_length=1, description="Language of the texts: its code, for the tokenizer.")
    train: str = Field("train", description="Training split: a name in `root`.")
    valid: str = Field("val", description="Validation split: a name in `root`.")
    filter: LabelledFilterConfig = Field(LabelledFilterConfig(), description="Which training texts are left out.")

    @property
    def target(self) -> None:
        """Labels have no language."""


# --- text: strings to ids --------------------------------------------------------------------------------------------


class WordTokenizerConfig(Section):
    """Words as spaCy cuts them, with a vocabulary of the most frequent ones."""

    kind: Literal["word"] = Field("word", description="Words of spaCy's tokenizer.")
    lowercase: bool = Field(False, description="Lower-case the text before anything else.")
    min_freq: Size = Field(1, description="Keep the words that occur at least this often in the training text.")
    max_size: Size | None = Field(None, description="Keep at most this many words (specials not counted).")
    source_model: str | None = Field(
        None,
        description="spaCy model whose tokenizer cuts the source; without one `spacy.blank(language)`, no download.",
    )
    target_model: str | None = Field(None, description="The same for the target.")


class CharTokenizerConfig(Section):
    """Single characters (Unicode code points)."""

    kind: Literal["char"] = Field("char", description="Single characters.")
    lowercase: bool = Field(False, description="Lower-case the text before anything else.")
    min_freq: Size = Field(1, description="Keep the characters that occur at least this often.")


class ByteTokenizerConfig(Section):
    """The bytes of UTF-8: 256 tokens, the same for every language, and nothing is ever unknown."""

    kind: Literal["byte"] = Field("byte", description="Bytes of UTF-8.")


class SubwordConfig(Section):
    """What all kinds of parts of words have in common."""

    kind: Literal["bpe", "wordpiece", "unigram"]
    lowercase: bool = Field(False, description="Lower-case the text before anything else.")
    truecase: bool = Field(
        False,
        description="Give the first word of a line the case it has elsewhere in training text; translations begin "
        "with a capital letter. Text whose lines mostly begin with a small one stays as it is.",
    )

    def clashes(self) -> Iterator[Clash]:
        if self.lowercase and self.truecase:
            yield Clash(
                "lowercase leaves no case to mend; set one of lowercase and truecase", ("lowercase", "truecase")
            )


class BpeTokenizerConfig(SubwordConfig):
    """Byte-pair encoding of characters (Sennrich et al., 2016): parts of words, merged from frequent pairs."""

    kind: Literal["bpe"] = Field("bpe", description="Byte-pair encoding.")
    vocab_size: Size = Field(
        6000, description="Pieces to learn, at most; specials and the bytes of byte_fallback not counted."
    )
    min_freq: Size = Field(2, description="Merge only pairs that occur at least this often.")
    byte_fallback: bool = Field(
        False, description="Write a character that training text lacks in bytes, so that nothing is ever unknown."
    )
    dropout: Share = Field(
        0.0,
        description="BPE-dropout (Provilkov et al., 2020): leave out merges with this probability while training, so "
        "that every epoch cuts the text in other ways; try 0.1.",
    )


class WordPieceTokenizerConfig(SubwordConfig):
    """WordPiece as in BERT (Devlin et al., 2019): merged like BPE, cut by the longest piece that fits."""

    kind: Literal["wordpiece"] = Field("wordpiece", description="WordPiece.")
    vocab_size: Size = Field(6000, description="Pieces to learn, at most; specials not counted.")
    min_freq: Size = Field(2, description="Merge only pairs that occur at least this often.")


class UnigramTokenizerConfig(SubwordConfig):
    """Unigram language model (Kudo, 2018): pieces with probabilities, cut in the likeliest way."""

    kind: Literal["unigram"] = Field("unigram", description="Unigram language model.")
    vocab_size: Size = Field(6000, description="Pieces to learn, at most; specials not counted.")


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
    ] = Field(WordTokenizerConfig(), description="How text is cut into tokens.")
    joint_vocabulary: bool = Field(False, description="One vocabulary for both languages instead of one each.")


# --- model -----------------------------------------------------------------------------------------------------------


class EncoderConfig(Section):
    """The embedding and the encoder, with the settings that they share with a decoder."""

    kind: Literal["transformer", "classifier"]
    d_model: Size = Field(256, description="Width of the residual stream.")
    ffn: Size = Field(1024, description="Width of the hidden layer in the feed-forward blocks.")
    encoder_layers: Size = Field(3, description="Number of encoder blocks.")
    heads: Size = Field(8, description="Attention heads; must divide d_model where d_qk or d_v is left out.")
    d_qk: Size | None = Field(None, description="Width of queries and keys in each head. Default: d_model / heads.")
    d_v: Size | None = Field(None, description="Width of values in each head. Default: d_model / heads.")
    qkv_bias: bool = Field(
        True, description="A bias in the projections to queries, keys and values; the output projection always has one."
    )
    qk_norm: bool = Field(
        False, description="A layer norm on queries and keys in each head, which lets the learning rate be higher."
    )
    dropout: Share = Field(0.1, description="Dropout on the embeddings and on the output of every sub-layer.")
    attention_dropout: Share = Field(0.0, description="Dropout on the attention weights.")
    ffn_dropout: Share = Field(0.0, description="Dropout inside the feed-forward block, after the activation.")
    norm: Literal["pre", "post"] = Field(
        "pre", description="Layer norm before each sub-layer, or after its residual sum."
    )
    activation: Literal["relu", "gelu"] = Field(
        "relu", description="Activation of the feed-forward blocks; gelu: Hendrycks and Gimpel (2016)."
    )
    positions: Literal["sinusoidal", "learned", "rotary"] = Field(
        "sinusoidal",
        description="How a token knows its place: by a vector added to its embedding, fixed or learned; or by turning "
        "queries and keys by angles that grow with their positions (Su et al., 2021), in cross-attention, too.",
    )
    max_positions: Size = Field(
        512,
        description="Longest sentence, in tokens with its end, that learned positions can place. The others have no "
        "limit.",
    )
    embedding_norm_eps: PositiveFloat | None = Field(
        None, description="A layer norm on the embeddings, with this epsilon. Default: none."
    )
    embedding_init: Literal["normal", "xavier"] = Field(
        "normal",
        description="First values of embeddings: normal, so that tokens weigh about as much as positions; or Xavier's "
        "uniform, like all other matrices, which starts them small and lets them move faster.",
    )

    def clashes(self) -> Iterator[Clash]:
        uneven = self.d_model % self.heads != 0
        if uneven and None in (self.d_qk, self.d_v):
            divisors = [n for n in range(1, min(64, self.d_model) + 1) if self.d_model % n == 0]
            yield Clash(
                f"heads: {self.heads} does not divide d_model: {self.d_model}; possible: {divisors}",
                ("heads", "d_model"),
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            yield Clash(f"sinusoidal positions need an even d_model, not {self.d_model}", ("d_model", "positions"))
        d_qk = self.d_qk or (0 if uneven else self.d_model // self.heads)
        if self.positions == "rotary" and d_qk % 2:
            yield Clash(
                f"rotary positions need an even d_qk (by default d_model / heads), not {d_qk}", ("d_qk", "positions")
            )


class ModelConfig(EncoderConfig):
    """The encoder-decoder transformer."""

    kind: Literal["transformer"] = Field("transformer", description="Encoder and decoder: translates.")
    decoder_layers: Size = Field(3, description="Number of decoder blocks.")
    tie: Literal["none", "target", "all"] = Field(
        "target",
        description="Weights shared: none; target embedding = output projection; or source embedding too (all), "
        "which needs a joint vocabulary.",
    )


class ClassifierConfig(EncoderConfig):
    """The encoder alone, with the mean over its output and a linear layer: finds the label of a text."""

    kind: Literal["classifier"] = Field("classifier", description="Encoder, mean and a linear layer: labels text.")


# --- training --------------------------------------------------------------------------------------------------------


class BatchConfig(Section):
    """How sentence pairs are put together. A batch holds pairs of similar length and fits both limits."""

    max_tokens: PositiveInt = Field(
        4096, description="Most tokens on the longer side of a batch, padding counted: rows times longest sentence."
    )
    max_sentences: PositiveInt | None = Field(None, description="Most sentence pairs in a batch.")
    accumulate: PositiveInt = Field(
        1,
        description="Batches whose gradients are summed before one update. Several processes work on whole batches, as "
        "far as they come out even, and split the others.",
    )


class AdamConfig(Section):
    """Adam (Kingma and Ba, 2015)."""

    kind: Literal["adam"] = Field("adam", description="Adam.")
    lr: PositiveFloat = Field(5e-4, description="Peak learning rate.")
    betas: Betas = Field((0.9, 0.98), description="Decay of the running means of gradient and squared gradient.")
    eps: Epsilon = Field(1e-9, description="Added to the denominator.")


class AdamWConfig(Section):
    """AdamW (Loshchilov and Hutter, 2019): Adam with decoupled weight decay."""

    kind: Literal["adamw"] = Field("adamw", description="AdamW.")
    lr: PositiveFloat = Field(1e-3, description="Peak learning rate.")
    betas: Betas = Field((0.9, 0.98), description="Decay of the running means of gradient and squared gradient.")
    eps: Epsilon = Field(1e-9, description="Added to the denominator.")
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(
        0.01,
        description="Decoupled weight decay on the matrices between layers; embeddings, output layer, norms and biases "
        "are left alone.",
    )


class MuonConfig(Section):
    """Muon (Jordan et al., 2024) for the matrices between layers, AdamW for embeddings, output layer and all else."""

    kind: Literal["muon"] = Field("muon", description="Muon for hidden matrices, AdamW for the rest.")
    lr: PositiveFloat = Field(
        3e-3, description="Peak learning rate, of both: Muon's updates are scaled to AdamW's size."
    )
    momentum: Share = Field(0.95, description="Decay of Muon's running mean of gradients.")
    betas: Betas = Field((0.9, 0.98), description="AdamW's decay of the means of gradient and squared gradient.")
    eps: Epsilon = Field(1e-9, description="Added to AdamW's denominator.")
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(0.01, description="Decoupled weight decay on those matrices.")


class ConstantScheduleConfig(Section):
    """The peak rate throughout, after an optional warm-up."""

    kind: Literal["constant"] = Field("constant", description="No decay.")
    warmup_steps: Annotated[int, Field(ge=0)] = Field(0, description="Updates of linear warm-up.")


class InverseSqrtScheduleConfig(Section):
    """Linear warm-up, then decay with the inverse square root of the update (Vaswani et al., 2017)."""

    kind: Literal["inverse_sqrt"] = Field("inverse_sqrt", description="Decay with the inverse square root.")
    warmup_steps: PositiveInt = Field(400, description="Updates of linear warm-up.")


class CosineScheduleConfig(Section):
    """Linear warm-up, then half a cosine down to a share of the peak at the last update."""

    kind: Literal["cosine"] = Field("cosine", description="Half a cosine.")
    warmup_steps: Annotated[int, Field(ge=0)] = Field(400, description="Updates of linear warm-up.")
    final_share: Annotated[float, Field(ge=0.0, le=1.0)] = Field(0.0, description="Share of the peak rate at the end.")


class LinearScheduleConfig(Section):
    """Linear warm-up, then a straight line down to a share of the peak at the last update."""

    kind: Literal["linear"] = Field("linear", description="A straight line.")
    warmup_steps: Annotated[int, Field(ge=0)] = Field(400, description="Updates of linear warm-up.")
    final_share: Annotated[float, Field(ge=0.0, le=1.0)] = Field(0.0, description="Share of the peak rate at the end.")


class TrainingConfig(Section):
    """How the model is trained."""

    start_from: AnyPath | None = Field(
        None,
        description="Model file with whose weights and vocabularies training starts, to train on with other text. Its "
        "languages and sections `model` and `text` have to be the same, but for dropout. It is validated before the "
        "first update, and may remain the best model. Default: fresh ones.",
    )
    max_epochs: PositiveInt | None = Field(10, description="Stop after this many passes over the training text.")
    max_steps: PositiveInt | None = Field(None, description="Stop after this many updates.")
    batch: BatchConfig = Field(BatchConfig(), description="How sentence pairs are put together.")
    optimizer: Annotated[AdamConfig | AdamWConfig | MuonConfig, Field(discriminator="kind")] = Field(
        AdamWConfig(), description="What turns gradients into updates."
    )
    schedule: Annotated[
        ConstantScheduleConfig | InverseSqrtScheduleConfig | CosineScheduleConfig | LinearScheduleConfig,
        Field(discriminator="kind"),
    ] = Field(InverseSqrtScheduleConfig(), description="How the learning rate changes from update to update.")
    label_smoothing: Share = Field(0.1, description="Share of the target probability spread over all tokens.")
    r_drop: Annotated[float, Field(ge=0.0, le=1000.0)] = Field(
        0.0,
        description="Weight of R-Drop (Wu et al., 2021): each batch passes twice, with other dropout, and the two "
        "answers are drawn together. An update takes twice as long; 0 does without.",
    )
    clip_norm: PositiveFloat | None = Field(
        1.0, description="Longest gradient, by its 2-norm; longer ones are scaled down."
    )
    parallel: Literal["ddp", "fsdp"] = Field(
        "ddp",
        description="With more processes than one: a copy of the model in each, or its weights, gradients "
        "and optimizer state shared out, which takes less memory and more time.",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="Arithmetic of the forward and backward pass. auto: on a GPU, bfloat16 where it has that in "
        "hardware; on a CPU, bfloat16 where that is clearly quicker for batches and models of this size, which "
        "is measured at each start: of runs to be compared, let all have the same.",
    )
    activation_checkpointing: bool = Field(
        False,
        description="Keep only what goes into each block, and compute the rest a second time for the gradient (Chen et "
        "al., 2016): far less memory, the same weights, and updates that take up to a third longer.",
    )
    plain: list[Literal["attention", "dropout", "loss", "memory", "graphs"]] = Field(
        [],
        description="Fast paths to do without, where one is suspected. Those for CPUs: attention written out, dropout "
        "of 16 random bits, loss with its gradient in one pass, memory kept from update to update. That for a GPU by "
        "itself: updates recorded and replayed, as CUDA graphs.",
    )
    validate_every: PositiveInt | None = Field(None, description="Updates between validations. Default: once an epoch.")
    checkpoint_every: PositiveInt | None = Field(
        None, description="Updates between training states to resume from, besides those at every validation."
    )
    keep_last: PositiveInt = Field(2, description="How many training states are kept.")
    average_last: Annotated[int, Field(ge=2)] | None = Field(
        None,
        description="At the end, also measure the mean of the weights at this many last validations, and keep it if it "
        "is the best model.",
    )
    best: Literal["bleu", "chrf", "accuracy", "loss"] | None = Field(
        None,
        description="The validation figure that picks the best model; accuracy is the share of right tokens or labels, "
        "loss is minus the log-probability, without smoothing. Where a figure is the same twice, the loss decides. "
        "Default: bleu for translations, accuracy for labels.",
    )
    patience: PositiveInt | None = Field(
        None, description="Stop after this many validations in a row that bring no better figure."
    )
    log_every: PositiveInt = Field(
        50, description="Updates between rows of the metrics log, and where there is no terminal, lines."
    )
    samples: Annotated[int, Field(ge=0, le=10_000)] = Field(3, description="Translations shown at each validation.")

    def clashes(self) -> Iterator[Clash]:
        if self.max_epochs is None and self.max_steps is None:
            yield Clash(
                "max_epochs and max_steps are both null; give at least one of them", ("max_epochs", "max_steps")
            )


# --- decoding --------------------------------------------------------------------------------------------------------


class DecodingConfig(Section):
    """How a trained model searches for a translation. Validation while training always searches greedily."""

    search: Literal["greedy", "beam", "sample"] = Field(
        "beam", description="Best token at each step, beam search, or tokens drawn as the model's probabilities say."
    )
    beam_size: Annotated[int, Field(ge=1, le=1000)] = Field(
        5, description="Partial translations kept alive for each sentence."
    )
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = Field(
        1.0,
        description="Exponent a in score = log-probability / length^a (after Wu et al., 2016); 0 ranks by "
        "log-probability alone.",
    )
    temperature: Annotated[float, Field(ge=0.01, le=100.0)] = Field(
        1.0,
        description="Of samples: what log-probabilities are divided by before a token is drawn; below 1 the probable "
        "ones are drawn more often than the model says.",
    )
    top_k: PositiveInt | None = Field(
        None, description="Of samples: only so many most probable tokens are drawn from. Default: the whole vocabulary."
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(
        1, description="Of samples: with the same seed a line of the same number and text gets the same translations."
    )
    max_ratio: PositiveFloat | None = Field(
        None,
        description="A translation has at most this many tokens for each source token, and max_extra more. Default: "
        "half as many again as 99 in 100 of the training pairs need, and at least 2.",
    )
    max_extra: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        10, description="Tokens that a translation may have on top of max_ratio."
    )
    max_source: PositiveInt = Field(
        1000,
        description="Source tokens that are read of a line. What comes behind them is not translated, but warned of.",
    )
    batch_tokens: PositiveInt = Field(
        4096, description="Source tokens decoded together, padding counted; fewer where memory runs out."
    )


# --- the whole -------------------------------------------------------------------------------------------------------


class Config(Section):
    """One run, from text to model."""

    output: AnyPath | None = Field(
        None,
        description="Folder of the run: model, training states, logs. Default: checkpoints/NAME OF THE CONFIG FILE.",
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(
        1, description="Seed of everything random: weights, order, dropout."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where to compute. auto: CUDA where it is there."
    )
    processes: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None,
        description="Processes that train together, where torchrun does not start them. Default: two for models up to "
        "256 wide on a CPU with two cores or more, where they are mostly quicker than one with two threads; else, and "
        "on Windows, one.",
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="CPU threads of each process. Default: what PyTorch chooses, shared out between them."
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
        """Parallel text and a transformer where no kind is named, as in model files from before there were others."""
        usual = {"data": "parallel", "model": "transformer"}
        if not isinstance(values, dict):
            return values
        named = {key: {"kind": kind} | values[key] for key, kind in usual.items() if isinstance(values.get(key), dict)}
        return values | named

    def clashes(self) -> Iterator[Clash]:
        labelled = self.data.kind == "labelled"
        if labelled and self.model.kind != "classifier":
            yield Clash(
                "data.kind: labelled is text for a classifier; set model.kind: classifier", ("data.kind", "model.kind")
            )
        if self.model.kind == "classifier" and not labelled:
            yield Clash(
                "model.kind: classifier learns from labelled text; set data.kind: labelled", ("model.kind", "data.kind")
            )
        if labelled and self.training.best in ("bleu", "chrf"):
            yield Clash(
                f"training.best: {self.training.best} is a score of translations; for labels use accuracy or loss",
                ("training.best", "data.kind"),
            )
        if labelled and self.training.start_from is not None:
            yield Clash(
                "training.start_from is for translation: other text may have other labels; leave it out",
                ("training.start_from", "data.kind"),
            )
        if labelled and self.text.joint_vocabulary:
            yield Clash(
                "text.joint_vocabulary is for two languages, and labelled text has one; leave it out",
                ("text.joint_vocabulary", "data.kind"),
            )
        if labelled and isinstance(self.text.tokenizer, WordTokenizerConfig) and self.text.tokenizer.target_model:
            yield Clash(
                "text.tokenizer.target_model cuts translations, and labels are not cut; leave it out",
                ("text.tokenizer.target_model", "data.kind"),
            )
        if isinstance(self.model, ModelConfig) and self.model.tie == "all" and not self.text.joint_vocabulary:
            yield Clash(
                "model.tie: all shares one embedding between both languages; set text.joint_vocabulary: true",
                ("model.tie", "text.joint_vocabulary"),
            )
