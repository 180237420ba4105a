"""For scripts/services/openai: a tokenizer for genai-perf, and its figures beside ours.

tokenizer DIRECTORY   makes one whose tokens are characters, so that none has to be downloaded
compare DIRECTORY     the artifacts of a run: what both of us calculate from the same stamps must be equal
"""

import csv
import json
import sys
from pathlib import Path


def tokenizer(directory):
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate(["[UNK]", *(chr(code) for code in range(33, 127))])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex("."), "isolated")]
    )
    PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", bos_token="[UNK]").save_pretrained(directory)


def compare(directory):
    """Tokens are counted by different tokenizers, so that only times are compared."""
    with open(directory / "profile_export_genai_perf.csv") as file:
        theirs = {row[0]: row[1:] for row in csv.reader(file) if row}
    summary = json.loads((directory / "profile_export.json").read_text())["experiments"][0]["summary"]
    pairs = [
        ("Time To First Token (ms)", "time_to_first_token_ns"),
        ("Time To Second Token (ms)", "time_to_second_token_ns"),
        ("Request Latency (ms)", "latency_ns"),
    ]
    equal = True
    for name, key in pairs:
        # Answers that are no streams have no first token.
        if not summary.get(key) and theirs.get(name) in (None, ["0.00"] * len(theirs.get(name) or [])):
            continue
        their, our = float(theirs[name][0].replace(",", "")), summary[key]["avg"] / 1e6
        equal &= abs(their - our) < 0.01
        print(f"genai-perf: {name}: {their:.2f}, ours {our:.2f}")
    return 0 if equal else 1


if __name__ == "__main__":
    what, directory = sys.argv[1:]
    if what == "tokenizer":
        tokenizer(directory)
    else:
        sys.exit(compare(Path(directory)))
