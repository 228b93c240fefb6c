"""A random tiny Qwen2 with a tokenizer of its own, made in a moment: what local models are tested on."""

import pytest

from automem.models.companions import hide_broken

hide_broken()

NAMES = ["<|pad|>", "<|eot|>", "<|system|>", "<|user|>", "<|assistant|>"]
TEMPLATE = (
    "{%- for m in messages -%}<|{{ m['role'] }}|>{{ m['content'] }}<|eot|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)


def save_tokenizer(folder):
    tokenizers = pytest.importorskip("tokenizers", reason="transformers is not installed")
    from transformers import PreTrainedTokenizerFast

    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    backend = tokenizers.Tokenizer(tokenizers.models.BPE({c: n for n, c in enumerate(sorted(alphabet))}, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(NAMES)
    made = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|eot|>", pad_token="<|pad|>")
    made.chat_template = TEMPLATE
    made.save_pretrained(folder)
    return made


def save_model(folder, seed=0, context=256, sharpness=4.0):
    """A model whose replies are noise, but far from uniform noise."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = save_tokenizer(folder)
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=context,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight.mul_(sharpness)
    model.save_pretrained(folder)
    return folder


def save_adapter(base, folder, seed=1):
    """A LoRA adapter that was never trained, but is not nothing either."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    settings = LoraConfig(
        r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM", lora_alpha=64
    )
    get_peft_model(AutoModelForCausalLM.from_pretrained(base), settings).save_pretrained(folder)
    return folder
