"""What other toolkits and tutorials call our settings, for the advice about unknown keys and values."""

from collections.abc import Collection

# Our settings, and their names elsewhere: in fairseq, JoeyNMT, OpenNMT-py, Sockeye, Hugging Face's Trainer, and
# tutorials. A name with several meanings means the setting that is nearest to where it was found, and `section.name`
# stands for one with a meaning of its own in that section of theirs.
NAMES_ELSEWHERE = {
    "output": "model_dir save_dir output_dir save_model run_dir log_dir out_dir exp_dir checkpoint_dir run_name name",
    "seed": "random_seed manual_seed",
    "device": "use_cuda gpu use_gpu gpu_ranks no_cuda use_cpu",
    "processes": "world_size n_gpu num_gpus gpus n_gpus num_processes nproc_per_node",
    "data.root": "path folder data_path data_dir data_root dataset_dir",
    "data.source": "src src.lang src_lang source_lang source_language",
    "data.target": "tgt trg tgt.lang trg.lang tgt_lang trg_lang target_lang target_language",
    "data.train": "train_data trainpref train_file train_path training_data corpus_1 corpora path_src path_tgt",
    "data.train.source": "src path_src source_file",
    "data.train.target": "tgt trg path_tgt target_file",
    "data.valid": "dev dev_path dev_data validation validpref valid_data validation_file eval_data val",
    "data.valid.source": "src path_src source_file",
    "data.valid.target": "tgt trg path_tgt target_file",
    "data.filter.max_tokens": "max_length max_len max_seq_len max_sent_length src_seq_length tgt_seq_length "
    "max_source_length max_target_length max_source_positions max_target_positions",
    "data.filter.repeated": "dedup deduplicate drop_duplicates",
    "text.joint_vocabulary": "share_vocab shared_vocab joined_dictionary joint_vocab share_dict",
    "text.target_min_freq": "vocabulary_threshold",
    "text.tokenizer.kind": "level tokenizer_type subword_type",
    "text.tokenizer.vocab_size": "num_merges merges n_merges bpe_size src_vocab_size tgt_vocab_size voc_limit "
    "max_vocab_size num_words",
    "text.tokenizer.max_size": "voc_limit max_vocab_size num_words nwordssrc nwordstgt",
    "text.tokenizer.min_freq": "voc_min_freq thresholdsrc thresholdtgt src_words_min_frequency min_count "
    "word_min_count",
    "text.tokenizer.lowercase": "lower lower_case do_lower_case",
    "model.d_model": "emb_size embedding_dim embed_dim emb_dim embedding_size hid_dim hidden_dim word_vec_size "
    "encoder_embed_dim decoder_embed_dim model_dim hidden_size rnn_size transformer_model_size num_embed",
    "model.ffn": "ff_size d_ff ff_dim dim_ff feed_forward dim_feedforward pf_dim transformer_ff ffn_dim "
    "encoder_ffn_dim decoder_ffn_dim d_inner encoder_ffn_embed_dim decoder_ffn_embed_dim intermediate_size",
    "model.encoder_layers": "num_layers n_layers layers num_encoder_layers enc_layers num_hidden_layers",
    "model.decoder_layers": "num_decoder_layers dec_layers decoder.num_layers",
    "model.heads": "num_heads n_heads nhead attention_heads encoder_attention_heads decoder_attention_heads "
    "num_attention_heads",
    "model.dropout": "hidden_dropout embed_dropout emb_dropout dropout_rate",
    "text.tokenizer.dropout": "dropout_rate bpe_dropout",
    "model.attention_dropout": "attn_dropout",
    "model.ffn_dropout": "activation_dropout relu_dropout",
    "model.norm": "norm_first normalize_before pre_norm prenorm layer_norm encoder_normalize_before "
    "decoder_normalize_before",
    "model.activation": "activation_fn activation_function hidden_act",
    "model.positions": "position_encoding positional_encoding pos_encoding learned_pos encoder_learned_pos "
    "decoder_learned_pos position_embedding_type",
    "model.max_positions": "max_position_embeddings max_len max_seq_len",
    "model.tie": "tied_embeddings tied_softmax share_embeddings share_all_embeddings share_decoder_embeddings "
    "share_decoder_input_output_embed tie_word_embeddings tie_embeddings tie_weights weight_tying",
    "training.max_epochs": "epochs num_epochs n_epochs num_train_epochs max_epoch max_num_epochs",
    "training.max_steps": "updates max_updates max_update train_steps total_steps num_steps training_steps",
    "training.batch": "batch_size per_device_train_batch_size train_batch_size",  # in sentences or in tokens
    "training.batch.max_sentences": "batch_size",
    "training.batch.max_tokens": "tokens_per_batch max_batch_tokens",
    "training.batch.accumulate": "gradient_accumulation_steps gradient_accumulation update_freq update_interval accum "
    "batch_multiplier accum_count accumulation_steps grad_accum",
    "training.optimizer": "optim",
    "training.optimizer.lr": "learning_rate peak_learning_rate initial_learning_rate",
    "training.optimizer.betas": "adam_betas adam_beta1 adam_beta2",
    "training.optimizer.eps": "adam_eps adam_epsilon",
    "training.schedule": "scheduling scheduler lr_scheduler lr_scheduler_type decay_method learning_rate_decay",
    "training.schedule.warmup_steps": "warmup warm_up warmup_updates learning_rate_warmup num_warmup_steps "
    "warmup_ratio",
    "training.label_smoothing": "smoothing label_smoothing_factor",
    "training.clip_norm": "max_grad_norm grad_clip clip_grad_norm gradient_clip gradient_clipping clip_grad",
    "training.precision": "amp fp16 bf16 mixed_precision dtype model_dtype",
    "training.activation_checkpointing": "gradient_checkpointing checkpoint_activations",
    "training.validate_every": "eval_steps valid_steps validation_freq valid_freq eval_every valid_every eval_interval "
    "validate_interval_updates val_every val_freq eval_freq val_interval eval_strategy evaluation_strategy",
    "training.checkpoint_every": "save_steps save_every save_interval save_interval_updates save_checkpoint_steps "
    "save_freq checkpoint_interval",
    "training.log_every": "logging_steps logging_freq log_interval log_freq report_every log_steps print_every",
    "training.keep_last": "keep_checkpoint keep_checkpoints keep_last_ckpts keep_last_epochs keep_interval_updates "
    "save_total_limit",
    "training.start_from": "load_model train_from finetune_from_model from_pretrained pretrained restore_file",
    "training.average_last": "average_checkpoints",
    "training.best": "early_stopping_metric metric_for_best_model best_checkpoint_metric eval_metric "
    "early_stopping_criteria",
    "training.patience": "early_stopping_patience early_stopping early_stop",
    "training.samples": "print_valid_sents",
    "decoding.search": "do_sample sampling",
    "decoding.beam_size": "num_beams beam beam_width generation_num_beams",
    "decoding.length_penalty": "beam_alpha lenpen length_penalty_alpha",
    "decoding.temperature": "sampling_temperature random_sampling_temp",
    "decoding.top_k": "sampling_topk random_sampling_topk",
    "decoding.max_ratio": "max_len_a",
    "decoding.max_extra": "max_len_b max_length max_len",
    "decoding.max_source": "max_source_length max_input_length",
    "decoding.batch_tokens": "batch_size testing.batch_size max_batch_tokens eval_batch_size "
    "per_device_eval_batch_size",
}

# What there is instead of settings of others; `section.name` stands for one in that section of ours.
INSTEAD = {
    "evaluate.py --split NAME scores any split": "test test_data testpref",
    "batches come in a new random order in each epoch": "shuffle",
    "training.batch has max_tokens and max_sentences": "batch_type",
    "translations have at most decoding.max_ratio tokens for each source token, plus decoding.max_extra": ""
    "max_output_length max_new_tokens generation_max_length decoding.max_length decoding.max_len",
    "search neither forbids repetitions nor sets a least length": "no_repeat_ngram_size no_repeat_ngram "
    "block_ngram_repeat repetition_penalty min_len min_length min_output_length min_new_tokens",
    "decoding.top_k limits what is sampled": "top_p sampling_topp random_sampling_topp",
    "there is nothing to set for making batches": "num_workers dataloader_num_workers",
    "the loss is cross-entropy; training.label_smoothing smooths it": "criterion loss loss_fn",
    "the learning rate follows training.schedule, whatever the scores; final_share is where it may end": ""
    "learning_rate_min min_lr stop_min_lr warmup_init_lr lr_patience decrease_factor lr_shrink",
    "of initial weights, only those of embeddings can be chosen: model.embedding_init": "initializer init_gain "
    "bias_initializer embed_init_gain param_init param_init_glorot init_std",
    "the loss is the mean over the target tokens": "normalization sentence_avg",
    "a model is described by the section model; those of other toolkits cannot be read": "arch model_name_or_path "
    "model_name pretrained_model_name_or_path",
    "every validation translates the text and computes BLEU": "predict_with_generate eval_bleu eval_bleu_args "
    "eval_bleu_detok eval_bleu_remove_bpe eval_bleu_print_samples",
    "batches always hold pairs of similar length": "group_by_length bucket_size pool_factor",
    "nothing is uploaded": "push_to_hub hub_model_id hub_token",
    "all of the validation text is translated": "sample_dev_subset max_eval_samples",
    "training.start_from begins with a new optimizer, --resume goes on with the saved one": "reset_optimizer "
    "reset_scheduler reset_optim reset_lr_scheduler reset_iter_state",
    "no part can be frozen or loaded alone; training.start_from loads a whole model, and all of it is trained": ""
    "freeze freeze_encoder freeze_decoder freeze_params fixed_param_names load_encoder load_decoder load_pretrained "
    "pre_word_vecs_enc pre_word_vecs_dec",
    "train.py --resume continues a run": "resume resume_from_checkpoint",
    "train.py --overwrite replaces a run": "overwrite overwrite_output_dir",
    "model.safetensors in the run's folder is always the best one": "load_best_model_at_end "
    "keep_best_ckpts keep_best_checkpoints",
    "metrics.jsonl in the run's folder has all figures": "tensorboard tensorboard_logdir tensorboard_log_dir "
    "logging_dir wandb report_to",
    "translate.py --n-best N lists several translations": "n_best nbest",
    "with subwords (text.tokenizer.kind=bpe) hardly any word is unknown": "replace_unk",
    "tokenizers and vocabularies are learned from the training text; none are read": "vocab_file src_vocab tgt_vocab "
    "voc_file tokenizer_file bpe_codes codes model_file model_prefix sentencepiece_model src_subword_model "
    "tgt_subword_model",
}

# Words for values, and ours.
VALUES_ELSEWHERE = {
    "bf16": "bfloat16",
    "fp16": "bfloat16",
    "half": "bfloat16",
    "mixed": "bfloat16",
    "fp32": "float32",
    "full": "float32",
    "noam": "inverse_sqrt",
    "sqrt": "inverse_sqrt",
    "rope": "rotary",
    "absolute": "learned",
    "sentencepiece": "unigram",
    "spm": "unigram",
    "space": "whitespace",
    "pretokenized": "whitespace",
    "subword": "bpe",
    "subwords": "bpe",
    "ppl": "loss",
    "perplexity": "loss",
    "gpu": "cuda",
}


def our_name(key: str, home: str, known: Collection[str] = ()) -> str | None:
    """The path of the setting that other toolkits call `key`, if possible one of the section `home`, or near it.

    `known` are the keys of the section of the chosen kind, which come before those of another kind.
    """
    found = [ours for ours, names in NAMES_ELSEWHERE.items() if ours != home and underscored(key) in names.split()]

    def distance(ours: str) -> tuple[bool, bool, bool]:
        section, _, name = ours.rpartition(".")
        return section != home, name not in known, ours.partition(".")[0] != home.partition(".")[0]

    return min(found, key=distance, default=None)


def instead_of(key: str, home: str) -> str | None:
    """What there is instead of a setting, found in the section `home`, that other toolkits have, and we do not."""
    names = {underscored(key), f"{home}.{underscored(key)}"}
    return next((advice for advice, theirs in INSTEAD.items() if names & set(theirs.split())), None)


def underscored(key: str) -> str:
    """A name as settings are written, if it is written like an option: `--beam-size` is `beam_size`."""
    return key.lstrip("-").replace("-", "_").lower()
