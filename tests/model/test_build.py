"""What the settings of a model say, its layers have."""

import pytest
from torch import nn

from translate.config.model import TransformerConfig
from translate.model.attention import MultiHeadAttention
from translate.model.build import attention, build_transformer


@pytest.mark.parametrize("qkv_bias", [True, False])
@pytest.mark.parametrize("qk_norm", [True, False])
def test_every_attention_has_the_widths_biases_and_norms_of_the_settings(qkv_bias: bool, qk_norm: bool) -> None:
    widths = {"d_model": 8, "heads": 2, "d_qk": 3, "d_v": 5, "encoder_layers": 1, "decoder_layers": 1}
    config = TransformerConfig.model_validate({**widths, "qkv_bias": qkv_bias, "qk_norm": qk_norm})
    model = build_transformer(config, source_size=9, target_size=9)
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert len(attentions) == 3
    for each in attentions:
        layers = (each.query, each.key, each.value, each.output)
        assert [layer.out_features for layer in layers] == [6, 6, 10, 8]
        assert [layer.bias is not None for layer in layers] == [qkv_bias, qkv_bias, qkv_bias, True]
        for norm in (each.query_norm, each.key_norm):
            assert isinstance(norm, nn.LayerNorm) == qk_norm


@pytest.mark.parametrize(("given", "expected"), [({}, [8, 8, 8]), ({"d_qk": 3}, [6, 6, 8]), ({"d_v": 5}, [8, 8, 10])])
def test_each_width_has_a_default_of_its_own(given: dict[str, int], expected: list[int]) -> None:
    config = TransformerConfig.model_validate({"d_model": 8, "heads": 2, **given})
    layer = attention(config)
    assert [part.out_features for part in (layer.query, layer.key, layer.value)] == expected
