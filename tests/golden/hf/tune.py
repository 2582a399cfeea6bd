#!/usr/bin/env python3
"""Fine-tuning with adapters as PEFT does it, of the kept models: tuned.json has its losses and the logits afterwards.

    tune.py TRAINRUN             writes tuned.json, chat.jsonl and the folders chat_* (needs torch, transformers,
                                 tokenizers and peft); the adapters start as trainrun draws them
    tune.py compare TRAINRUN     trainrun tunes the same on two ranks; PEFT loads its adapters, transformers its merged
                                 weights, and both give the same logits
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import peft
import tokenizers
import torch
import transformers as hf

import make

HERE = pathlib.Path(__file__).parent
STEPS, GLOBAL, CONTEXT = 6, 4, {"gpt2": 16, "llama": 16, "bert": 16, "chat_gpt2": 64, "chat_llama": 64}
TARGETS = {"gpt2": ["blocks.*.attn.qkv", "blocks.*.mlp.up"], "chat_llama": ["blocks.*.attn.{q,v}"]}
OPTIONS = ["--train.lora.rank=2", "--train.lora.alpha=4", "--model.dropout=0", "--optim.lr=1e-2",
           "--optim.weight_decay=0.1",
           "--data.order=sequential"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def conversations():
    out = []
    for i in range(24):
        a, b = i * 7 % 10, i * 3 % 8
        messages = [{"role": "user", "content": f"What is {a} plus {b}?"},
                    {"role": "assistant", "content": f"It is {a + b}."}]
        if i % 3 == 0:
            messages.insert(0, {"role": "system", "content": "Be short."})
        if i % 4 == 1:
            messages += [{"role": "user", "content": "Thanks!"},
                         {"role": "assistant", "content": "Welcome \u2013 ask on."}]
        out.append(messages)
    return out


def parts(messages):
    """ChatML: texts, and whether they are learnt."""
    between, out = "", []
    for m in messages:
        between += f"<|im_start|>{m['role']}\n"
        if m["role"] == "assistant":
            out += [(between, False), (m["content"] + "<|im_end|>", True)]
            between = "\n"
        else:
            between += m["content"] + "<|im_end|>\n"
    return out + [(between, False)]


def make_chat():
    (HERE / "chat.jsonl").write_text("".join(json.dumps({"messages": m}, ensure_ascii=False) + "\n"
                                             for m in conversations()))
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    bpe.train_from_iterator([m["role"] + "\n" + m["content"] for c in conversations() for m in c],
                            tokenizers.trainers.BpeTrainer(
        vocab_size=320, special_tokens=SPECIAL, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    sizes = dict(vocab_size=bpe.get_vocab_size(), bos_token_id=0, eos_token_id=0)
    for name, model in (
            ("chat_gpt2", hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, n_positions=64, n_embd=32, n_layer=2, n_head=4))),
            ("chat_llama", hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, hidden_size=32, num_hidden_layers=2,
                                                              num_attention_heads=4,
                                                              num_key_value_heads=2, intermediate_size=24,
                                                              max_position_embeddings=64,
                                                              tie_word_embeddings=True, pad_token_id=None)))):
        shutil.rmtree(HERE / name, ignore_errors=True)
        make.draw(model, name)
        model.to(torch.bfloat16).save_pretrained(HERE / name)
        hf.PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=SPECIAL[0]).save_pretrained(HERE / name)


def tokens():
    out, x = [], 3
    while len(out) < 3000:
        x = (x * 5 + 7) % make.VOCAB
        out.append(x)
    return out


def rows(name):
    """Inputs and targets, -100 where nothing is learnt; a row after another."""
    context = CONTEXT[name]
    if not name.startswith("chat"):
        ids = tokens()
        return [(ids[i * context:(i + 1) * context], ids[i * context + 1:(i + 1) * context + 1])
                for i in range(STEPS * GLOBAL)]
    bpe, out = tokenizers.Tokenizer.from_file(str(HERE / name / "tokenizer.json")), []
    for messages in conversations():
        ids = [(id, learnt) for text, learnt in parts(messages)
               for id in bpe.encode(text, add_special_tokens=False).ids]
        whole = bpe.encode("".join(text for text, _ in parts(messages)), add_special_tokens=False).ids
        assert whole == [id for id, _ in ids] and len(ids) <= context, (len(ids), name)
        pad = context - len(ids) + 1
        out.append(([id for id, _ in ids[:-1]] + [0] * pad, [id if learnt else -100 for id, learnt in ids[1:]]
                    + [-100] * pad))
    return out


def trainrun(binary, work, *words):
    done = subprocess.run([binary, *words], cwd=work, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def imported(binary, work, name):
    targets = [f"--train.lora.targets={json.dumps(TARGETS[name])}"] if name in TARGETS else []
    trainrun(binary, work, "import-hf", str(HERE / name), f"--name={name}", f"--model.context={CONTEXT[name]}",
             *OPTIONS, *targets)


def tuned(model, name):
    losses = []
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, betas=(0.9, 0.95),
                                  eps=1e-8,
                                  weight_decay=0.1)
    model.train()
    for step in range(STEPS):
        batch = rows(name)[step * GLOBAL:(step + 1) * GLOBAL]
        x, y = torch.tensor([x for x, _ in batch]), torch.tensor([y for _, y in batch])
        loss = torch.nn.functional.cross_entropy(model(input_ids=x).logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def write(binary):
    make_chat()
    kept = {}
    with tempfile.TemporaryDirectory() as work:
        for name in ("gpt2", "llama", "chat_gpt2", "chat_llama"):
            imported(binary, work, name)
            trainrun(binary, work, "export-hf", name, f"{name}-start", "--adapter")
            config = hf.AutoConfig.from_pretrained(HERE / name)
            config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
            base = hf.AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float64, config=config)
            model = peft.PeftModel.from_pretrained(base, f"{work}/{name}-start", is_trainable=True).double()
            count = sum(p.numel() for p in model.parameters() if p.requires_grad)
            losses = tuned(model, name)
            logits = make.logits(model.merge_and_unload(), name, torch.float64).tolist()
            kept[name] = {"trained": count, "losses": losses, "logits": logits}
            print(name, count, losses)
    short = lambda v: json.dumps(json.loads(json.dumps(v), parse_float=lambda x: round(float(x), 8)))
    (HERE / "tuned.json").write_text("{\n" + ",\n".join(f' "{n}": {short(v)}' for n, v in kept.items()) + "\n}\n")


def compare(binary):
    with tempfile.TemporaryDirectory() as work:
        (pathlib.Path(work) / "tokens.bin").write_bytes(b"".join(t.to_bytes(2, "little") for t in tokens()))
        for name in CONTEXT:
            imported(binary, work, name)
            chat = [f"--data.paths={HERE}/chat.jsonl", "--data.kind=jsonl", f"--data.tokenizer={HERE / name}",
                    "--data.pack=none"]
            trainrun(binary, work, "--nproc", "2", f"runs/{name}/config.json", f"--batch.global={GLOBAL}",
                     "--batch.micro=1",
                     f"--train.steps={STEPS}", *(chat if name.startswith("chat")
                                                 else ["--data.paths=tokens.bin", "--data.kind=tokens"]))
            trainrun(binary, work, "export-hf", name, name)
            trainrun(binary, work, "export-hf", name, f"{name}-adapter", "--adapter")
            auto = hf.AutoModelForMaskedLM if name == "bert" else hf.AutoModelForCausalLM
            merged = auto.from_pretrained(f"{work}/{name}", dtype=torch.float64)
            base = auto.from_pretrained(HERE / name, dtype=torch.float64)
            before = make.logits(base, name, torch.float64)
            model = peft.PeftModel.from_pretrained(base, f"{work}/{name}-adapter").double()
            a, b = make.logits(merged, name, torch.float64), make.logits(model, name, torch.float64)
            print(name, "moved by", (a - before).abs().max().item(), "largest difference", (a - b).abs().max().item())
            assert (a - b).abs().max() < 1e-5 < (a - before).abs().max()


if __name__ == "__main__":
    found = str(pathlib.Path(sys.argv[-1]).resolve())
    compare(found) if sys.argv[1] == "compare" else write(found)
