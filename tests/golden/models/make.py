#!/usr/bin/env python3
"""Writes models.json: what the originals of core/models give for weights and a batch that follow from formulas.

    python3 tests/golden/models/make.py     (needs torch, torchvision and transformers; the tests read the file alone)

The formulas are those of tests/support/model_run.h: a weight follows from its name, its shape and its index. So the
names and shapes of the originals are what the families must have. All is computed in f64.
"""
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
import transformers as hf
from torch import nn
from torchvision.models import convnext, resnet, vision_transformer

torch.set_default_dtype(torch.float64)
BATCH = 4


def mix(x):
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def bits(name, count):
    salt = 2166136261
    for c in name.encode():
        salt = ((salt ^ c) * 16777619) & 0xFFFFFFFF
    with np.errstate(over="ignore"):
        return mix(mix(np.array([salt], dtype=np.uint32)) + np.arange(count, dtype=np.uint32))


def unit(name, count):
    return (bits(name, count) >> np.uint32(8)).astype(np.float64) * 2.0**-24


def weight(name, shape):
    count = math.prod(shape)
    v, rest = unit(name, count) - 0.5, count // shape[0]
    if name.endswith("running_mean") or (rest == 1 and "bias" in name):
        w = 0.4 * v
    elif rest == 1:
        w = 1 + 0.4 * v
    else:
        w = 3.4 * v / math.sqrt(rest)
    return torch.from_numpy(w.astype(np.float32).astype(np.float64)).reshape(shape)


def ids(name, shape, below):
    return torch.from_numpy((bits(name, math.prod(shape)) % np.uint32(below)).astype(np.int64)).reshape(shape)


def floats(name, shape):
    return torch.from_numpy(unit(name, math.prod(shape)).astype(np.float32).astype(np.float64)).reshape(shape)


class LstmModel(nn.Module):
    def __init__(self, vocab, width, hidden, depth):
        super().__init__()
        self.encoder = nn.Embedding(vocab, width)
        self.rnn = nn.LSTM(width, hidden, depth, batch_first=True)
        self.decoder = nn.Linear(hidden, vocab)

    def forward(self, x):
        return self.decoder(self.rnn(self.encoder(x))[0])


def pair(i, o):
    block = nn.Module()
    block.double_conv = nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                                      nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
    block.forward = block.double_conv.forward
    return block


class Unet(nn.Module):
    def __init__(self, channels, classes, width, depth):
        super().__init__()
        self.depth, self.inc = depth, pair(channels, width)
        for i in range(1, depth + 1):
            down, up, c = nn.Module(), nn.Module(), width << (depth - i)
            down.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), pair(width << (i - 1), width << i))
            up.up, up.conv = nn.ConvTranspose2d(2 * c, c, 2, stride=2), pair(2 * c, c)
            self.add_module(f"down{i}", down)
            self.add_module(f"up{i}", up)
        self.outc = nn.Module()
        self.outc.conv = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        sizes = [self.inc(x)]
        for i in range(1, self.depth + 1):
            sizes.append(getattr(self, f"down{i}").maxpool_conv(sizes[-1]))
        x = sizes[-1]
        for i in range(1, self.depth + 1):
            up = getattr(self, f"up{i}")
            x = up.conv(torch.cat([sizes[self.depth - i], up.up(x)], 1))
        return self.outc.conv(x)


class Mixer(nn.Module):
    def __init__(self, channels, size, patch, width, depth, token_hidden, hidden, classes):
        super().__init__()

        def mlp(n, inner):
            m = nn.Module()
            m.fc1, m.fc2 = nn.Linear(n, inner), nn.Linear(inner, n)
            m.forward = lambda x: m.fc2(F.gelu(m.fc1(x)))
            return m

        self.stem = nn.Module()
        self.stem.proj = nn.Conv2d(channels, width, patch, patch)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            b = nn.Module()
            b.norm1, b.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
            b.mlp_tokens, b.mlp_channels = mlp((size // patch) ** 2, token_hidden), mlp(width, hidden)
            self.blocks.append(b)
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.stem.proj(x).flatten(2).transpose(1, 2)
        for b in self.blocks:
            x = x + b.mlp_tokens(b.norm1(x).transpose(1, 2)).transpose(1, 2)
            x = x + b.mlp_channels(b.norm2(x))
        return self.head(self.norm(x).mean(1))


class Dlrm(nn.Module):
    def __init__(self, dense, rows, width, bottom, top):
        super().__init__()

        def mlp(sizes, last):
            layers = []
            for i in range(len(sizes) - 1):
                layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
            return nn.Sequential(*(layers if last else layers[:-1]))

        n = len(rows)
        self.bot_l = mlp([dense] + bottom + [width], True)
        self.emb_l = nn.ModuleList(nn.Embedding(r, width) for r in rows)
        self.top_l = mlp([width + n * (n + 1) // 2] + top + [1], False)

    def forward(self, dense, categories):
        x = self.bot_l(dense)
        t = torch.stack([x] + [e(categories[:, i]) for i, e in enumerate(self.emb_l)], 1)
        z = t @ t.transpose(1, 2)
        i, j = zip(*[(i, j) for i in range(t.shape[1]) for j in range(i)])
        return self.top_l(torch.cat([x, z[:, list(i), list(j)]], 1))


def causal(kind, model_class, config, vocab=17, context=8):
    model = model_class(config)
    x, y = ids("ids", (BATCH, context), vocab), ids("targets", (BATCH, context), vocab)
    return kind, model, lambda: F.cross_entropy(model(x).logits.flatten(0, 1), y.flatten())


def t5(options):
    model = hf.T5ForConditionalGeneration(hf.T5Config(
        vocab_size=17, d_model=16, d_kv=6, d_ff=20, num_layers=2, num_heads=2, relative_attention_num_buckets=8,
        relative_attention_max_distance=6, dropout_rate=0.0, layer_norm_epsilon=1e-6, attn_implementation="eager",
        decoder_start_token_id=0))
    x, d, y = ids("ids", (BATCH, 9), 17), ids("decoder_ids", (BATCH, 8), 17), ids("targets", (BATCH, 8), 17)
    return model, lambda: F.cross_entropy(model(input_ids=x, decoder_input_ids=d).logits.flatten(0, 1), y.flatten())


def images(model, channels, size, classes):
    x, y = floats("images", (BATCH, channels, size, size)), ids("targets", (BATCH,), classes)
    return model, lambda: F.cross_entropy(model(x), y)


TEXT = dict(vocab_size=17, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=64,
            attn_implementation="eager")
GATED = dict(TEXT, intermediate_size=20, num_key_value_heads=1, pad_token_id=None)
OURS = {"vocab": 17, "context": 8, "width": 16, "depth": 2, "heads": 2}
GATED_OURS = dict(OURS, hidden=20, kv_heads=1)


def rope(theta):
    return dict(rope_parameters={"rope_type": "default", "rope_theta": theta})


def cases():
    def text(options, model):
        return options, *causal("", lambda _: model, None)[1:]

    yield "qwen", *text(dict(GATED_OURS, version="2"), hf.Qwen2ForCausalLM(
        hf.Qwen2Config(**GATED, rms_norm_eps=1e-6, tie_word_embeddings=False, **rope(1e6))))
    yield "qwen", *text(dict(GATED_OURS, version="3", head_dim=6, tied=True), hf.Qwen3ForCausalLM(
        hf.Qwen3Config(**GATED, head_dim=6, rms_norm_eps=1e-6, tie_word_embeddings=True, **rope(1e6))))
    yield "gemma", *text(dict(GATED_OURS, head_dim=6), hf.GemmaForCausalLM(
        hf.GemmaConfig(**GATED, head_dim=6, rms_norm_eps=1e-6, hidden_activation="gelu_pytorch_tanh", **rope(1e4))))
    yield "mistral", *text(dict(GATED_OURS, window=3), hf.MistralForCausalLM(
        hf.MistralConfig(**GATED, head_dim=8, rms_norm_eps=1e-5, sliding_window=3, tie_word_embeddings=False,
                         **rope(1e4))))
    bert = hf.BertForMaskedLM(hf.BertConfig(**dict(TEXT, max_position_embeddings=8), intermediate_size=64,
                                            pad_token_id=None,
                                            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    yield "bert", *text(OURS, bert)
    classifier = hf.BertForSequenceClassification(hf.BertConfig(
        **dict(TEXT, max_position_embeddings=8), intermediate_size=64, pad_token_id=None, num_labels=7,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    xc, lengths, yc = ids("ids", (BATCH, 8), 7), ids("lengths", (BATCH,), 7) + 1, ids("targets", (BATCH,), 7)
    types = ids("token_type_ids", (BATCH, 8), 2)
    seen = (torch.arange(8) < lengths[:, None]).long()
    yield ("bert_classifier", dict(OURS, classes=7), classifier,
           lambda: F.cross_entropy(classifier(input_ids=xc, attention_mask=seen, token_type_ids=types).logits, yc))
    yield "t5", dict(OURS, source_context=9, hidden=20, head_dim=6, buckets=8, max_distance=6), *t5(None)

    lstm = LstmModel(17, 8, 6, 2)
    x, y = ids("ids", (BATCH, 8), 17), ids("targets", (BATCH, 8), 17)
    yield ("lstm", {"vocab": 17, "context": 8, "width": 8, "hidden": 6}, lstm,
           lambda: F.cross_entropy(lstm(x).flatten(0, 1), y.flatten()))

    image = {"channels": 2, "size": 8, "classes": 7}
    vit = vision_transformer.VisionTransformer(8, 4, 2, 2, 16, 64, num_classes=7)
    vit.conv_proj = nn.Conv2d(2, 16, 4, 4)
    yield "vit", dict(image, width=16, depth=2, heads=2), *images(vit, 2, 8, 7)
    # torchvision's ResNet has 3 channels and a width of 64. That of 50 layers says its names and what it evaluates: on
    # so
    # few small images its norms divide by next to nothing.
    yield ("resnet", {"channels": 3, "size": 32, "classes": 7, "layers": 10},
           *images(resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=7), 3, 32, 7))
    yield ("resnet", {"channels": 3, "size": 32, "classes": 7, "layers": 50},
           *images(resnet.ResNet(resnet.Bottleneck, [3, 4, 6, 3], num_classes=7), 3, 32, 7))
    stages = [convnext.CNBlockConfig(8, 16, 2), convnext.CNBlockConfig(16, None, 1)]
    net = convnext.ConvNeXt(stages, num_classes=7)
    net.features[0][0] = nn.Conv2d(2, 8, 4, 4)
    yield "convnext", dict(image, size=16, depths=[2, 1], widths=[8, 16]), *images(net, 2, 16, 7)

    unet = Unet(2, 3, 4, 2)
    xi, yi = floats("images", (BATCH, 2, 8, 8)), ids("targets", (BATCH, 8, 8), 3)
    yield "unet", dict(image, classes=3, width=4, depth=2), unet, lambda: F.cross_entropy(unet(xi), yi)
    yield ("mixer", dict(image, patch=2, width=12, depth=2, token_hidden=5, hidden=20),
           *images(Mixer(2, 8, 2, 12, 2, 5, 20, 7), 2, 8, 7))
    dlrm = Dlrm(5, [7, 3, 11], 4, [6], [8])
    xd, xc, yd = floats("dense", (BATCH, 5)), ids("categories", (BATCH, 3),
                                                  3), (floats("targets", (BATCH, 1)) > 0.5).double()
    yield ("dlrm", {"dense": 5, "rows": [7, 3, 11], "width": 4, "bottom": [6], "top": [8]}, dlrm,
           lambda: F.binary_cross_entropy_with_logits(dlrm(xd, xc), yd))


def tied(model):
    """Names of the state dict that are a second name of a tensor."""
    seen, twice = {}, set()
    for name, p in list(model.named_parameters(remove_duplicate=False)):
        if id(p) in seen:
            twice.add(name)
        seen.setdefault(id(p), name)
    return twice


out = []
for kind, options, model, loss in cases():
    model = model.double()
    named = dict(model.named_parameters(remove_duplicate=False))
    skip = tied(model)
    state = {n: t for n, t in model.state_dict(keep_vars=True).items()
             if n not in skip and not n.endswith(("num_batches_tracked", "position_ids"))}
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(weight(name, tuple(tensor.shape)))
    model.eval()
    evaluated = loss().item()
    model.train()
    value = loss()
    value.backward()
    row = {"kind": kind, "options": options, "loss": value.item(), "evaluation": evaluated,
           "state": {n: list(t.shape) for n, t in state.items()},
           "norms": {n: named[n].grad.norm().item() for n in state if n in named},
           # after the step
           "buffers": {n: t.norm().item() for n, t in state.items() if n not in named and "running" in n}}
    if options.get("layers") == 50:
        row["loss"], row["norms"] = None, {}
    row["norm"] = math.sqrt(sum(v * v for v in row["norms"].values()))
    out.append(row)
    print(kind, row["loss"], row["norm"])
rows = ",\n".join(json.dumps(row) for row in out)
pathlib.Path(__file__).with_name("models.json").write_text("[\n" + rows + "\n]\n")
