"""Folders of a base and of adapters, with shapes but without sense: enough for what is looked at before a start."""

import json
import struct


def save_tensors(path, shapes):
    """A safetensors file of zeros."""
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 4 * shape[0] * shape[1]
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    told = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(told)) + told + bytes(end))


def save_base(folder, hidden=64, heads=2, template=True):
    folder.mkdir(parents=True)
    config = {"hidden_size": hidden, "num_attention_heads": heads, "max_position_embeddings": 512}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text("{}")
    if template:
        (folder / "chat_template.jinja").write_text("{{ messages }}")
    layers = {f"model.layers.{n}.self_attn.{m}_proj.weight": (hidden, hidden) for n in range(2) for m in "qkvo"}
    save_tensors(folder / "model.safetensors", layers)
    return folder


def save_adapter(folder, base, rank=4, hidden=64, layer="model.layers.0.self_attn.q_proj", **config):
    folder.mkdir(parents=True)
    facts = {"peft_type": "LORA", "r": rank, "base_model_name_or_path": str(base), **config}
    (folder / "adapter_config.json").write_text(json.dumps(facts))
    halves = {"lora_A": (rank, hidden), "lora_B": (hidden, rank)}
    tensors = {f"base_model.model.{layer}.{half}.weight": shape for half, shape in halves.items()}
    save_tensors(folder / "adapter_model.safetensors", tensors)
    return folder
