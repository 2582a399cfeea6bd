#!/usr/bin/env python3
"""Models in Hugging Face's format, small and random: a folder each, and logits.json with what transformers computes.

    make.py                      writes the folders and logits.json (needs torch, transformers and tokenizers)
    make.py compare TRAINRUN     import-hf and export-hf of each folder; transformers loads what came out, and the
                                 logits must be those of the original, bit for bit
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers as hf

HERE = pathlib.Path(__file__).parent
VOCAB, TOKENS = 37, 4
TEXT = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=16,
            intermediate_size=24, attention_dropout=0.0)
GATED = dict(TEXT, num_key_value_heads=2, pad_token_id=None, bos_token_id=1, eos_token_id=2)


def rope(theta):
    return dict(rope_parameters={"rope_type": "default", "rope_theta": theta})


MODELS = {  # folder: model, what it is stored in, bytes of a file
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config(vocab_size=VOCAB, n_positions=16, n_embd=32, n_layer=2, n_head=4,
                                               bos_token_id=1, eos_token_id=2), torch.bfloat16, None),
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig(**GATED, rms_norm_eps=1e-5, **rope(5e5)), torch.bfloat16, "14KB"),
    "llama32": (hf.LlamaForCausalLM, hf.LlamaConfig(**GATED, head_dim=6, rms_norm_eps=1e-5, tie_word_embeddings=True,
                                                    rope_parameters={"rope_type": "llama3", "rope_theta": 5e5,
                                                                     "factor": 8.0, "low_freq_factor": 1.0,
                                                                     "high_freq_factor": 4.0,
                                                                     "original_max_position_embeddings": 8}),
                torch.bfloat16, None),
    "linear": (hf.LlamaForCausalLM, hf.LlamaConfig(**GATED, rms_norm_eps=1e-5, tie_word_embeddings=True,
                                                   rope_parameters={"rope_type": "linear", "rope_theta": 1e4,
                                                                    "factor": 4.0}),
               torch.bfloat16, None),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config(**GATED, rms_norm_eps=1e-6, tie_word_embeddings=False, **rope(1e6)),
              torch.bfloat16, None),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config(**GATED, head_dim=6, rms_norm_eps=1e-6, tie_word_embeddings=True,
                                                  **rope(1e6)), torch.bfloat16, "20KB"),
    "mistral": (hf.MistralForCausalLM,
                hf.MistralConfig(**GATED, head_dim=6, rms_norm_eps=1e-5, sliding_window=3, **rope(1e4)),
                torch.bfloat16, None),
    "gemma": (hf.GemmaForCausalLM, hf.GemmaConfig(**GATED, head_dim=6, rms_norm_eps=1e-6, **rope(1e4)), torch.float16,
              None),
    "bert": (hf.BertForMaskedLM, hf.BertConfig(**{k: v for k, v in TEXT.items() if k != "attention_dropout"},
                                               pad_token_id=0),
             torch.bfloat16, None),
    "bert_classes": (hf.BertForSequenceClassification,
                     hf.BertConfig(**{k: v for k, v in TEXT.items() if k != "attention_dropout"}, pad_token_id=0,
                                   id2label={0: "bad", 1: "fair", 2: "good"},
                                   label2id={"bad": 0, "fair": 1, "good": 2}),
                     torch.bfloat16, None),
    "vit": (hf.ViTForImageClassification, hf.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                                       intermediate_size=24, image_size=8, patch_size=4, num_channels=2,
                                                       num_labels=5), torch.float16, None),
}


def inputs(name):
    if name == "vit":
        count = 2 * 2 * 8 * 8
        return {"pixel_values": torch.tensor([(i * 37 % 101 - 50) / 64 for i in range(count)]).reshape(2, 2, 8, 8)}
    ids = {"input_ids": torch.tensor([[(7 * i + 3) * (b + 1) % VOCAB for i in range(TOKENS)] for b in range(2)])}
    if name == "bert_classes":  # pairs of texts, the second one of two tokens
        ids["attention_mask"] = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
        ids["token_type_ids"] = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 0]])
    return ids


def logits(model, name, dtype):
    model = model.to(dtype).eval()
    given = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs(name).items()}
    with torch.no_grad():
        return model(**given).logits


def draw(model, name):
    torch.manual_seed(len(name) * 1000 + sum(name.encode()))
    for key, p in model.named_parameters():
        norm = p.ndim == 1 and ("norm" in key.lower() or "ln_" in key) and not key.endswith("bias")
        scale = 0.2 if p.ndim == 1 else 0.2
        p.data = torch.randn_like(p) * scale + (1 if norm and name != "gemma" else 0)


def make():
    kept = {}
    for name, (kind, config, dtype, most) in MODELS.items():
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        config._attn_implementation = "eager"
        model = kind(config)
        draw(model, name)
        model = model.to(dtype)
        model.save_pretrained(folder, **({"max_shard_size": most} if most else {}))
        kept[name] = logits(kind.from_pretrained(folder, dtype=torch.float64), name, torch.float64).tolist()
        print(name, sum(f.stat().st_size for f in folder.iterdir()), "bytes; largest logit",
              max(abs(v) for v in torch.tensor(kept[name]).flatten().tolist()))
    from tokenizers import Tokenizer, models
    words = Tokenizer(models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4}, unk_token="<unk>"))
    hf.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", bos_token="<s>",
                               eos_token="</s>").save_pretrained(HERE / "llama")
    text = ",\n".join(f' "{n}": {json.dumps(json.loads(json.dumps(v), parse_float=lambda x: round(float(x), 7)))}'
                      for n, v in kept.items())
    (HERE / "logits.json").write_text("{\n" + text + "\n}\n")


def compare(trainrun):
    classes = {"bert": hf.AutoModelForMaskedLM, "vit": hf.AutoModelForImageClassification,
               "bert_classes": hf.AutoModelForSequenceClassification}
    with tempfile.TemporaryDirectory() as work:
        for name, (_, _, dtype, most) in MODELS.items():
            def run(*words):
                done = subprocess.run([trainrun, *words], cwd=work, text=True, capture_output=True)
                assert done.returncode == 0, done.stdout + done.stderr
            run("import-hf", str(HERE / name), f"--name={name}")
            run("export-hf", f"runs/{name}", name, *(["--max-shard=25KB"] if most else []))
            auto = classes.get(name, hf.AutoModelForCausalLM)
            back, told = auto.from_pretrained(f"{work}/{name}", dtype=torch.float32, output_loading_info=True)
            assert not any(told[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), told
            was = auto.from_pretrained(HERE / name, dtype=torch.float32)
            assert type(back) is type(was), (type(back), type(was))
            a, b = logits(was, name, torch.float32), logits(back, name, torch.float32)
            assert torch.equal(a, b), f"{name}: {(a - b).abs().max()}"
            print(name, type(back).__name__, "largest difference", (a - b).abs().max().item())
        hf.AutoTokenizer.from_pretrained(f"{work}/llama")


if __name__ == "__main__":
    compare(str(pathlib.Path(sys.argv[2]).resolve())) if sys.argv[1:2] == ["compare"] else make()
