"""A language model of letters, small enough to remember its training set in a second."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

LETTERS = " abcdefghijklmnopqrstuvwxyz0123456789:"
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "ate", "red", "fish")


def tokenizer(text):
    """Return ids of letters, as a tokenizer of Hugging Face does."""
    return {"input_ids": [LETTERS.index(letter) for letter in text]}


def corpus(number=20, seed=0):
    """Return short texts of common words."""
    draws = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(WORDS), (number, 4), generator=draws)
    return [" ".join(WORDS[i] for i in row) for row in rows.tolist()]


class Model(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), 16)
        self.recurrent = nn.GRU(16, width, batch_first=True)
        self.head = nn.Linear(width, len(LETTERS))

    def forward(self, input_ids, attention_mask=None):
        return self.head(self.recurrent(self.embedding(input_ids))[0])


def batch_of(texts):
    """Return ids with 0 at the ends of shorter texts, and the targets without these."""
    rows = [torch.tensor(tokenizer(text)["input_ids"]) for text in texts]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    targets = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)[:, 1:]
    return ids, targets


def trained(texts, steps=120, canaries=None, seed=0, tokenizer=None):
    """Train on all texts at once; watch the training if canaries are given."""
    torch.manual_seed(seed)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if canaries is not None:
        canaries.watch(model, optimizer, tokenizer)
    ids, targets = batch_of(texts)
    mask = torch.cat([torch.ones(len(ids), 1), targets != -100], 1).long()
    for _ in range(steps):
        optimizer.zero_grad()
        logits = model(input_ids=ids, attention_mask=mask)[:, :-1]
        cross_entropy(logits.transpose(1, 2), targets, ignore_index=-100).backward()
        optimizer.step()
    return model


def total_loss(model):
    """Return a function of texts: the sum of each one's losses."""

    def loss(texts):
        ids, targets = batch_of(texts)
        each = cross_entropy(model(ids)[:, :-1].transpose(1, 2), targets, reduction="none")
        return each.sum(1)

    return loss


def greedy(model, length):
    """Return a function of prefixes: the letters that greedy decoding adds, one at a time."""

    def generate(prefixes):
        added = []
        for prefix in prefixes:
            ids = tokenizer(prefix)["input_ids"]
            for _ in range(length):
                ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
            added.append("".join(LETTERS[i] for i in ids)[len(prefix) :])
        return added

    return generate
