#!/usr/bin/env python3
"""Trains configs/vision.json's ResNet in PyTorch, by the same recipe, and prints its accuracy on the validation
pictures as one line of JSON:

  trainrun show configs/vision.json > c.json && python3 torch_vision.py c.json [--seed 1] [--device cuda]

Same pictures, batches of the same size, SGD, schedule and initial distributions; the order of pictures and the initial
numbers come from --seed, so they are not ours. fp32; tf32 and bf16 (autocast) as train.precision says."""
import argparse
import json
import math
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BLOCKS = {10: (1, 1, 1, 1), 18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}


def normed(inner, out, kernel, stride):
    conv = nn.Conv2d(inner, out, kernel, stride, kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(conv, nn.BatchNorm2d(out))


class Block(nn.Module):
    def __init__(self, inner, out, stride):
        super().__init__()
        self.path = nn.Sequential(normed(inner, out, 3, stride), nn.ReLU(), normed(out, out, 3, 1))
        self.shortcut = normed(inner, out, 1, stride) if stride != 1 or inner != out else nn.Identity()

    def forward(self, x):
        return F.relu(self.path(x) + self.shortcut(x))


def resnet(model):
    layers, inner = [normed(model["channels"], model["width"], 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], model["width"]
    for stage, count in enumerate(BLOCKS[model["layers"]]):
        for i in range(count):
            out = model["width"] << stage
            layers.append(Block(inner, out, 2 if stage and not i else 1))
            inner = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, model["classes"]))


def rate(optim, steps, step):
    """The learning rate of step `step`, from 1 on: linear warm-up, then a cosine (core/optim/schedule.h)."""
    warmup = optim["schedule"]["warmup"]
    if step <= warmup:
        return optim["lr"] * step / warmup
    return optim["lr"] * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    a = parser.parse_args()
    with open(a.config, encoding="utf-8") as file:
        config = json.load(file)
    optim, steps, batch = config["optim"], config["train"]["steps"], config["batch"]["global"]
    precision = config["train"]["precision"]
    torch.manual_seed(a.seed)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    arrays = np.load(config["data"]["paths"][0])
    images = torch.from_numpy(np.ascontiguousarray(arrays["images"], np.float32)).to(a.device)
    labels = torch.from_numpy(arrays["labels"].astype(np.int64)).to(a.device)
    held = round(len(labels) * config["data"]["validation"])
    train = len(labels) - held
    net = resnet(config["model"]).to(a.device)
    decayed = [p for p in net.parameters() if p.dim() >= 2]
    others = [p for p in net.parameters() if p.dim() < 2]
    sgd = torch.optim.SGD([{"params": decayed, "weight_decay": optim["weight_decay"]}, {"params": others}],
                          lr=optim["lr"], momentum=optim["momentum"])
    cast = torch.autocast(a.device, torch.bfloat16, enabled=precision == "bf16")
    compiled = torch.compile(net) if a.device == "cuda" else net
    order, began = torch.empty(0, dtype=torch.int64), time.time()
    for step in range(1, steps + 1):
        if len(order) < batch:
            order = torch.cat([order, torch.randperm(train)])
        chosen, order = order[:batch].to(a.device), order[batch:]
        for group in sgd.param_groups:
            group["lr"] = rate(optim, steps, step)
        with cast:
            loss = F.cross_entropy(compiled(images[chosen]).float(), labels[chosen])
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    last = loss.item()
    seconds = time.time() - began
    net.eval()
    with torch.no_grad(), cast:
        right = sum(int((net(images[i:i + 1000]).argmax(1) == labels[i:i + 1000]).sum())
                    for i in range(train, len(labels), 1000))
    print(json.dumps({"accuracy": right / held, "pictures": held, "loss": last, "seconds": seconds}))


if __name__ == "__main__":
    main()
