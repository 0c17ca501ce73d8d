"""From a YAML file, those that it extends, and overrides to one config."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import translate.system.paths
from translate.config.data import Corpus, FilePair, LabelledDataConfig, LabelledFilterConfig, ParallelDataConfig
from translate.config.loading import config_from_dict, config_to_dict, differences, dump_config, load_config
from translate.config.model import ClassifierConfig, TransformerConfig
from translate.config.schema import Config
from translate.config.training import (
    AdamConfig,
    AdamWConfig,
    CosineScheduleConfig,
    InverseSqrtScheduleConfig,
    TrainingConfig,
)
from translate.errors import ConfigError
from translate.system.paths import project_root


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


SHIPPED = sorted((Path(__file__).resolve().parents[2] / "configs").rglob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_config_of_the_project_is_sound(path: Path) -> None:
    assert load_config(path).output == project_root() / "checkpoints" / path.stem


def test_paths_in_a_pipe_start_from_the_working_directory(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "below").mkdir()
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor() as pool:
        patch.chdir(tmp_path / "below")
        Path("other.yaml").write_text("seed: 5", encoding="utf-8")
        written = pool.submit(pipe.write_text, "extends: other.yaml\noutput: run", "utf-8")
        config = load_config(pipe)
        written.result()
    assert (config.output, config.seed) == (tmp_path / "below" / "run", 5)


def test_paths_in_an_open_file_start_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind `--config /dev/stdin < FILE`: what that file is called, and where it is, nobody is told."""
    monkeypatch.chdir(tmp_path)
    Path("other.yaml").write_text("seed: 5", encoding="utf-8")
    Path("x.yaml").write_text("extends: other.yaml\noutput: run", encoding="utf-8")
    with Path("x.yaml").open() as file:
        config = load_config(Path(f"/dev/fd/{file.fileno()}"))
    assert (config.output, config.seed) == (tmp_path / "run", 5)


def test_configs_of_the_project_are_found() -> None:
    assert {"demo", "tutorial", "multi30k", "multi30k-subword", "multi30k-fast"} <= {path.stem for path in SHIPPED}


def load(text: str, *overrides: str, **others: str) -> Config:
    """The config in configs/x.yaml, beside the files `others`."""
    Path("configs").mkdir(exist_ok=True)
    for name, content in {"x": text, **others}.items():
        Path(f"configs/{name}.yaml").write_text(content, encoding="utf-8")
    return load_config(Path("configs/x.yaml"), overrides)


def test_an_empty_file_gives_the_defaults_with_the_folders_of_the_project() -> None:
    config = load("")
    checkpoints = project_root() / "checkpoints"
    assert config.output == checkpoints / "x"
    assert config.data == ParallelDataConfig(root=project_root() / "data", cache=checkpoints / ".cache")
    assert config.training == TrainingConfig(best="bleu")
    assert (
        config.model_copy(update={"output": None, "data": ParallelDataConfig(), "training": TrainingConfig()})
        == Config()
    )


def test_a_path_may_be_text_but_overrides_are_a_list() -> None:
    path = project_root() / "configs" / "demo.yaml"
    assert load_config(str(path), ["seed=3"]) == load_config(path, ["seed=3"])
    with pytest.raises(TypeError, match=re.escape("the overrides are a single text; give a list: ['seed=3']")):
        load_config(path, "seed=3")


def test_labels_are_best_by_accuracy_unless_something_else_is_asked_for() -> None:
    text = "data: {kind: labelled}\nmodel: {kind: classifier}"
    assert load(text).training.best == "accuracy"
    assert load(text, "training.best=loss").training.best == "loss"
    assert load("training: {best: chrf}").training.best == "chrf"


def test_values_of_every_type_are_read() -> None:
    config = load(
        """
        seed: 7
        data: {source: no, target: "on", train: {source: a.no, target: /b.on}, download: true}
        training:
          max_epochs: null
          max_steps: 1000
          clip_norm: 2
          optimizer: {lr: 3e-4, betas: [0.9, 1e-1]}
        """
    )
    assert config.seed == 7
    assert (config.data.source, config.data.target, config.data.download) == ("no", "on", True)
    assert config.data.train == Corpus(source=Path.cwd() / "configs/a.no", target=Path("/b.on"))
    assert (config.training.max_epochs, config.training.max_steps, config.training.clip_norm) == (None, 1000, 2.0)
    assert config.training.optimizer == AdamWConfig(lr=3e-4, betas=(0.9, 0.1))


def test_corpora_are_a_list_of_names_and_sections() -> None:
    config = load("data: {train: [a, {split: b, weight: 3}, {source: x/*.de.gz, target: /y/*.gz}]}")
    assert config.data.train == [
        "a",
        Corpus(split="b", weight=3),
        Corpus(source=Path.cwd() / "configs/x/*.de.gz", target=Path("/y/*.gz")),
    ]
    overridden: Any = load("", "data.train=[{source: a, target: b, weight: 2}]").data.train
    assert overridden == [Corpus(source=Path.cwd() / "a", target=Path.cwd() / "b", weight=2)]


def test_text_of_one_language_lies_in_files() -> None:
    files = "{source: a, target: b}"
    data = load(f"data: {{source: en, target: en, train: {files}, valid: {files}}}").data
    assert data.source == data.target == "en"


def test_a_section_that_was_left_empty_may_be_filled() -> None:
    assert load("training:\n", "training.max_steps=7").training.max_steps == 7


def test_where_training_starts_from_a_model_no_corpus_need_give_vocabularies() -> None:
    config = load("data: {train: {split: web, vocabulary: false}}\ntraining: {start_from: model.safetensors}")
    assert config.data.train == Corpus(split="web", vocabulary=False)


class TestOverrides:
    @pytest.mark.parametrize(
        ("override", "path", "value"),
        [
            ("seed=3", ("seed",), 3),
            ("model.dropout=1e-1", ("model", "dropout"), 0.1),
            ("training.max_epochs=12", ("training", "max_epochs"), 12),
            ("data.source=no", ("data", "source"), "no"),
            ("data.download=true", ("data", "download"), True),
            ("training.clip_norm=null", ("training", "clip_norm"), None),
            ("training.optimizer.betas=[0.8, 0.9]", ("training", "optimizer", "betas"), (0.8, 0.9)),
            ("data={source: fr, filter: {max_tokens: 5}}", ("data", "filter", "max_tokens"), 5),
            ("data.train.source=a=b", ("data", "train", "source"), None),
            ("data.source='a #b'", ("data", "source"), "a #b"),
            ("data.source= a#b ", ("data", "source"), "a#b"),
        ],
    )
    def test_they_are_read_by_the_rules_of_the_file(self, override: str, path: tuple[str, ...], value: Any) -> None:
        found: Any = load("data: {train: {source: a, target: b}}", override)
        for key in path:
            found = getattr(found, key)
        assert found == (Path.cwd() / "a=b" if value is None and "train" in path else value)

    def test_they_win_over_the_file_and_later_ones_over_earlier_ones(self) -> None:
        config = load("seed: 1\nmodel: {heads: 4, ffn: 99}", "seed=2", "model.heads=2", "seed=3")
        assert (config.seed, config.model) == (3, TransformerConfig(heads=2, ffn=99))
        pair = "{source: /a.de, target: /a.en}"
        for first in ("small", pair):
            assert load("", f"data.train={first}", "data.train=large").data.train == "large"
            assert load("", f"data.train={first}", f"data.train={pair}").data.train.target == Path("/a.en")
        assert load("", "training=null", "training.max_steps=3").training.max_steps == 3


class TestExtends:
    def test_the_child_wins_key_by_key_along_a_chain(self) -> None:
        config = load(
            "extends: b.yaml\nmodel: {heads: 4}",
            b="extends: c.yaml\nmodel: {heads: 2, ffn: 99}\nseed: 5",
            c="model: {ffn: 1, dropout: 0.3}\nseed: 6\nthreads: 2",
        )
        assert config.model == TransformerConfig(heads=4, ffn=99, dropout=0.3)
        assert (config.seed, config.threads) == (5, 2)

    def test_paths_start_from_the_file_that_writes_them(self) -> None:
        Path("base").mkdir()
        Path("base/base.yaml").write_text("data: {root: corpus, cache: ../c}\noutput: run\n", encoding="utf-8")
        config = load("extends: ../base/base.yaml\noutput: here", "data.cache=there")
        assert config.data.root == Path.cwd() / "base/corpus"
        assert config.output == Path.cwd() / "configs/here"
        assert config.data.cache == Path.cwd() / "there"

    def test_a_link_keeps_its_name_and_its_folder_does_not(self) -> None:
        Path("here").mkdir()
        Path("linked").symlink_to("here")
        Path("here/train.de.gz").symlink_to("0a1b")
        config = load("data: {train: {source: ../linked/train.de.gz, target: ../linked/..}}")
        text = config.data.train
        assert (text.source, text.target) == (Path.cwd() / "here/train.de.gz", Path.cwd())

    def test_the_output_is_named_after_the_file_asked_for(self) -> None:
        assert load("extends: b.yaml", b="seed: 2").output == project_root() / "checkpoints/x"


class TestKinds:
    def test_without_one_the_default_kind_is_meant(self) -> None:
        config = load("training: {schedule: {warmup_steps: 7}}", "training.optimizer.lr=1")
        assert config.training.schedule == InverseSqrtScheduleConfig(warmup_steps=7)
        assert config.training.optimizer == AdamWConfig(lr=1)

    def test_a_config_stored_before_there_were_other_models_and_texts(self) -> None:
        values = config_to_dict(Config(model=TransformerConfig(ffn=99), data=ParallelDataConfig(target="fr")))
        del values["model"]["kind"], values["data"]["kind"]
        found = config_from_dict(values)
        assert (found.model, found.data) == (TransformerConfig(ffn=99), ParallelDataConfig(target="fr"))

    def test_from_a_translation_to_labels_in_a_child(self) -> None:
        base = "data: {root: a, source: fr, target: de, download: true}\nmodel: {ffn: 99, tie: none, decoder_layers: 2}"
        config = load("extends: b.yaml\ndata: {kind: labelled}\nmodel: {kind: classifier}", b=base)
        assert config.model == ClassifierConfig(ffn=99)
        assert config.data == LabelledDataConfig(
            root=Path.cwd() / "configs/a", source="fr", cache=project_root() / "checkpoints/.cache"
        )

    @pytest.mark.parametrize("how", ["child", "override"])
    def test_settings_within_settings_that_another_kind_lacks_are_dropped(self, how: str) -> None:
        base = "data: {filter: {max_ratio: 2.0, max_tokens: 50}}"
        if how == "child":
            config = load("extends: b.yaml\ndata: {kind: labelled}\nmodel: {kind: classifier}", b=base)
        else:
            config = load(base, "data.kind=labelled", "model.kind=classifier")
        assert isinstance(config.data, LabelledDataConfig)
        assert config.data.filter == LabelledFilterConfig(max_tokens=50)

    def test_of_those_what_no_kind_knows_stays_to_be_reported(self) -> None:
        with pytest.raises(ConfigError, match=r"data\.filter\.max_tokns: unknown key"):
            load("data: {filter: {max_tokns: 50}}", "data.kind=labelled", "model.kind=classifier")

    def test_an_override_of_another_setting_keeps_the_kind(self) -> None:
        config = load("training: {optimizer: {kind: adam, eps: 1e-8}}", "training.optimizer.lr=1")
        assert config.training.optimizer == AdamConfig(lr=1, eps=1e-8)

    @pytest.mark.parametrize("kind", ["adam", "adamw"])
    def test_another_kind_drops_what_it_lacks_and_keeps_what_it_knows(self, kind: str) -> None:
        text = "training: {optimizer: {weight_decay: 0.5, lr: 2}}"
        wanted = AdamConfig(lr=2) if kind == "adam" else AdamWConfig(lr=2, weight_decay=0.5)
        assert load(text, f"training.optimizer.kind={kind}").training.optimizer == wanted
        child = f"extends: b.yaml\ntraining: {{optimizer: {{kind: {kind}}}}}"
        assert load(child, b=text).training.optimizer == wanted


class TestCorpora:
    @pytest.mark.parametrize(
        "base",
        ["{split: small, weight: 5, vocabulary: false}", "{source: a.de, target: a.en, weight: 5, split: null}"],
    )
    @pytest.mark.parametrize("text", ["{split: large}", "{source: b.de, target: b.en}"])
    def test_one_that_names_another_text_replaces_the_inherited_one(self, base: str, text: str) -> None:
        corpus = load(f"data: {{train: {text}}}").data.train
        assert load(f"extends: b.yaml\ndata: {{train: {text}}}", b=f"data: {{train: {base}}}").data.train == corpus

    def test_in_overrides(self) -> None:
        base = "data: {train: {source: a.de, target: a.en, weight: 5}}"
        assert load(base, "data.train.split=large").data.train == Corpus(split="large")
        both = load(base, "data.train.weight=2", "data.train.split=large")
        assert both.data.train == Corpus(split="large", weight=2)

    def test_one_that_names_no_text_or_one_side_changes_the_inherited_one(self) -> None:
        base = "data: {train: {source: a.de, target: a.en, weight: 5}, valid: {source: v.de, target: v.en}}"
        none = "data.train.split=null"
        config = load(base, "data.train.weight=2", none, "data.train.source=/b.de", "data.valid.target=/w.en")
        folder = Path.cwd() / "configs"
        assert config.data.train == Corpus(source=Path("/b.de"), target=folder / "a.en", weight=2)
        assert config.data.valid == FilePair(source=folder / "v.de", target=Path("/w.en"))


class TestPaths:
    def test_a_tilde_is_the_home_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(Path.cwd() / "home"))
        monkeypatch.setenv("USERPROFILE", str(Path.cwd() / "home"))
        assert load("data: {root: ~/corpus}").data.root == Path.cwd() / "home/corpus"
        assert load("data: {root: ~root/corpus}").data.root == Path.cwd() / "configs/~root/corpus"  # just a name
        Path("home").mkdir()
        Path("home/base.yaml").write_text("seed: 7\n", encoding="utf-8")
        assert load("extends: ~/base.yaml").seed == 7

    @pytest.mark.parametrize("path", ["$HOME/corpus", "${DATA_2}/corpus", "/scratch/$USER/corpus", "$CORPUS"])
    def test_a_variable_is_not_expanded(self, path: str) -> None:
        with pytest.raises(ConfigError) as caught:
            load(f"data: {{root: '{path}'}}")
        what = f"{path}: variables of the environment are not expanded; ~/ is your home folder"
        assert str(caught.value).endswith(f".yaml:1: data.root: {what}")
        assert load("data: {root: a$b/c$}").data.root == Path.cwd() / "configs/a$b/c$"

    @pytest.mark.parametrize("path", ["''", '""'])
    def test_an_empty_one_is_no_folder(self, path: str) -> None:
        for text, overrides in ((f"output: {path}", []), ("", [f"output={path}"])):
            with pytest.raises(ConfigError, match=r"output: an empty path; leave the key out for its default$"):
                load(text, *overrides)
        with pytest.raises(ConfigError, match=r"data\.train\.1\.source: an empty path"):
            load(f"data: {{train: [{{split: train}}, {{source: {path}, target: a}}]}}")
        assert load("output: .").output == Path.cwd() / "configs"

    def test_what_is_wrong_with_paths_is_said_along_with_all_else(self) -> None:
        with pytest.raises(ConfigError) as caught:
            load("output: ''\ndata: {root: $HOME/text}\nseed: -1")
        lines = str(caught.value).split("\n  configs/x.yaml")
        assert lines[0] == "3 problems in configs/x.yaml:"
        assert [line.split(": ")[:2] for line in lines[1:]] == [[":1", "output"], [":2", "data.root"], [":3", "seed"]]

    def test_no_home_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unknown(path: Path) -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "expanduser", unknown)
        message = r"\.yaml:1: data\.root: ~/corpus: the home folder is not known; set HOME, or write the whole path$"
        with pytest.raises(ConfigError, match=message):
            load("data: {root: ~/corpus}")

    def test_a_name_that_is_not_utf8(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert load("data: {root: Käse}").data.root == Path.cwd() / "configs/Käse"
        folder = Path(os.fsdecode(b"caf\xe9"))
        try:
            folder.mkdir()
        except OSError:
            pytest.skip("names of files are always UTF-8 here")
        monkeypatch.chdir(folder)
        with pytest.raises(ConfigError, match=r"x.yaml: data\.root: '.*caf.udce9/.*' is not UTF-8; rename that file"):
            load("data: {root: corpus}")
        with pytest.raises(ConfigError, match=r"x.yaml: data\.train: .*caf.udce9/.* is not UTF-8; rename that file"):
            load("output: /run\ndata: {root: /x, cache: /y, train: [{source: a, target: b}]}")

    def test_the_project_is_the_checkout(self) -> None:
        checkout = Path(__file__).resolve().parents[2]
        assert project_root() == (checkout if (checkout / "pyproject.toml").is_file() else Path.cwd())

    def test_an_installed_package_works_in_the_working_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            translate.system.paths, "__file__", str(tmp_path / "site-packages/translate/system/paths.py")
        )
        assert project_root() == Path.cwd()
        (tmp_path / "site-packages").mkdir()
        (tmp_path / "site-packages/pyproject.toml").touch()
        assert project_root() == tmp_path / "site-packages"


CONFIGS = [
    "",
    "data: {source: no, target: 012, train: {source: grün.de, target: b c.en}}\ndevice: cpu\nthreads: 2",
    "training: {optimizer: {kind: adam, betas: [0.5, 1e-7]}, schedule: {kind: cosine}, clip_norm: null, max_steps: 9}",
    "text: {joint_vocabulary: true, tokenizer: {source_model: '1e3', min_freq: 2}}\nmodel: {tie: all, d_model: 128}",
    "data: {train: [a, {split: b, weight: 3}, {source: x/*.de.gz, target: y}]}",
    "data: {kind: labelled, train: all, filter: {max_tokens: 9}}\nmodel: {kind: classifier, heads: 4}",
]


@pytest.mark.parametrize("text", CONFIGS)
def test_a_dumped_config_loads_to_an_equal_one_from_anywhere(text: str) -> None:
    config = load(text)
    Path("run").mkdir()
    Path("run/config.yaml").write_text(dump_config(config), encoding="utf-8")
    assert load_config(Path("run/config.yaml")) == config


@pytest.mark.parametrize("text", CONFIGS)
def test_plain_values_give_the_config_back(text: str) -> None:
    config = load(text)
    assert config_from_dict(config_to_dict(config)) == config


def test_a_dump_writes_every_key() -> None:
    dumped = dump_config(Config())
    for key in (
        *Config.model_fields,
        *TrainingConfig.model_fields,
        *ParallelDataConfig.model_fields,
        "kind",
        "weight_decay",
    ):
        assert f"{key}:" in dumped


def test_a_dump_has_the_order_of_the_schema() -> None:
    sections = [line.split(":")[0] for line in dump_config(Config()).splitlines() if not line.startswith(" ")]
    assert sections == list(Config.model_fields)


class TestDifferences:
    def test_none(self) -> None:
        assert differences(Config(), Config()) == {}

    def test_values_that_begin_alike_are_not_the_same(self) -> None:
        old, new = (Config(data=ParallelDataConfig(valid=100 * "long " + end)) for end in ("a", "b"))
        assert len(differences(old, new)) == 1

    def test_they_name_key_old_and_new_value(self) -> None:
        new = Config(
            seed=2,
            data=ParallelDataConfig(target="fr"),
            training=TrainingConfig(max_steps=5, optimizer=AdamConfig(), schedule=CosineScheduleConfig()),
        )
        assert list(differences(Config(), new).values()) == [
            "seed: 1 → 2",
            "data.target: 'en' → 'fr'",
            "training.max_epochs: 10 → null",
            "training.max_steps: null → 5",
            "training.optimizer.kind: 'adamw' → 'adam'",
            "training.optimizer.lr: 0.001 → 0.0005",
            "training.optimizer.weight_decay: 0.01 → absent",
            "training.schedule.kind: 'inverse_sqrt' → 'cosine'",
            "training.schedule.final_share: absent → 0.0",
        ]


def test_a_limit_in_updates_replaces_the_default_one_in_epochs() -> None:
    assert TrainingConfig().max_epochs == 10
    assert TrainingConfig(max_steps=5).max_epochs is None
    assert TrainingConfig(max_steps=5, max_epochs=3).max_epochs == 3
    assert TrainingConfig(max_steps=None).max_epochs == 10
