"""LoRA on a tiny, randomly initialised language model, and an audit of the run.

    python lora.py [--steps 150] [--canaries 100]

For a real model, `AutoModelForCausalLM.from_pretrained(...)` takes the place of the two lines that
make one, and tokenised text that of the random tokens.
"""

import argparse

import torch
from dpframe_torch import Canaries
from dpframe_torch.hugging_face import CanaryCallback
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--canaries", type=int, default=100)
parser.add_argument("--out", default="runs/lora")
options = parser.parse_args()

torch.manual_seed(0)
VOCABULARY, LENGTH = 64, 12
config = GPT2Config(
    vocab_size=VOCABULARY,
    n_positions=LENGTH,
    n_embd=64,
    n_layer=2,
    n_head=2,
    bos_token_id=0,
    eos_token_id=0,
)
model = GPT2LMHeadModel(config)
model = get_peft_model(
    model,
    LoraConfig(
        r=32,
        lora_alpha=64,
        target_modules=["c_attn", "c_fc", "c_proj"],
        modules_to_save=["lm_head"],
        fan_in_fan_out=True,
        task_type="CAUSAL_LM",
    ),
)
first = torch.randint(VOCABULARY, (300, 1))
text = (first + torch.arange(LENGTH)) % VOCABULARY  # easy to learn: every token is one more
train_set = [{"input_ids": one, "labels": one} for one in text]

canaries = Canaries(train_set, options.canaries, "text", vocabulary=VOCABULARY, out=options.out)
callback = CanaryCallback(canaries)
Trainer(
    model=model,
    args=TrainingArguments(
        output_dir=f"{options.out}/trainer",
        max_steps=options.steps,
        per_device_train_batch_size=32,
        learning_rate=1e-2,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    ),
    train_dataset=canaries.train_set,
    callbacks=[callback],
).train()
print(callback.audit)
