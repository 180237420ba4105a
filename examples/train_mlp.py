#!/usr/bin/python3
"""Trains the demo's digit classifier and writes its weights: train_mlp.py WEIGHTS.npz

The data are drawn here: ten 5 x 7 glyphs at random places of an 8 x 8 field, with random brightness and noise. Ten percent
of the pictures are kept back, and the weights are only written if more than 95 % of those are recognised. Runs in seconds;
the same numpy gives the same weights.
"""

import sys

import numpy as np

GLYPHS = """
.###. ..#.. .###. ####. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. .###. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... ....# ...#. #...# #...# .#... #...# ....#
.###. .###. ##### ####. ...#. .###. .###. .#... .###. .###.
"""
SIDE = 8
LAYERS = (SIDE * SIDE, 128, 64, 10)
PICTURES = 12_000
EPOCHS = 12
BATCH = 64
REQUIRED_ACCURACY = 0.95


def glyphs():
    """The ten digits as an array [10, 7, 5] of zeros and ones."""
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    return np.array([[[mark == "#" for mark in row[digit]] for row in rows] for digit in range(10)], dtype=np.float32)


def draw(count, random):
    """Pictures [count, 64] with values around 0 (paper) to 1 (ink), and the digits [count] that they show."""
    shapes = glyphs()
    _, height, width = shapes.shape
    digits = random.integers(10, size=count)
    tops, lefts = random.integers(SIDE - height + 1, size=count), random.integers(SIDE - width + 1, size=count)
    pictures = random.normal(0.0, 0.2, size=(count, SIDE, SIDE)).astype(np.float32)
    for picture, digit, top, left, ink in zip(pictures, digits, tops, lefts, random.uniform(0.5, 1.0, size=count)):
        picture[top : top + height, left : left + width] += shapes[digit] * ink
    return pictures.reshape(count, -1), digits


def initial_layers(random):
    """Pairs of weights and biases, scaled by He's rule for rectified linear units."""
    return [
        (random.normal(0.0, np.sqrt(2.0 / rows), size=(rows, columns)).astype(np.float32), np.zeros(columns, np.float32))
        for rows, columns in zip(LAYERS, LAYERS[1:])
    ]


def forward(layers, pixels):
    """The input of every layer, then the network's output before softmax."""
    values = [pixels]
    for index, (weights, bias) in enumerate(layers):
        output = values[-1] @ weights + bias
        values.append(output if index == len(layers) - 1 else np.maximum(output, 0.0))
    return values


def gradients(layers, pixels, digits):
    """Derivatives of the mean cross entropy by each weight and bias, first layer first."""
    values = forward(layers, pixels)
    exponentials = np.exp(values[-1] - values[-1].max(axis=1, keepdims=True))
    error = exponentials / exponentials.sum(axis=1, keepdims=True)
    error[np.arange(len(digits)), digits] -= 1.0
    error /= len(digits)
    slopes = []
    for (weights, _), inputs in zip(reversed(layers), reversed(values[:-1])):
        slopes.append((inputs.T @ error, error.sum(axis=0)))
        error = (error @ weights.T) * (inputs > 0.0)
    return slopes[::-1]


def train(pixels, digits, random):
    """Stochastic gradient descent with momentum and a step that shrinks with every epoch."""
    layers = initial_layers(random)
    speeds = [(np.zeros_like(weights), np.zeros_like(bias)) for weights, bias in layers]
    for epoch in range(EPOCHS):
        step = 0.05 * 0.8**epoch
        for batch in np.array_split(random.permutation(len(digits)), len(digits) // BATCH):
            for layer, speed, slope in zip(layers, speeds, gradients(layers, pixels[batch], digits[batch])):
                for parameter, velocity, derivative in zip(layer, speed, slope):
                    velocity *= 0.9
                    velocity -= step * derivative
                    parameter += velocity
    return layers


def accuracy(layers, pixels, digits):
    return float((forward(layers, pixels)[-1].argmax(axis=1) == digits).mean())


def main(target):
    random = np.random.default_rng(20251)
    pixels, digits = draw(PICTURES, random)
    kept_back = PICTURES // 10
    layers = train(pixels[kept_back:], digits[kept_back:], random)
    training = accuracy(layers, pixels[kept_back:], digits[kept_back:])
    unseen = accuracy(layers, pixels[:kept_back], digits[:kept_back])
    print(f"train_mlp: accuracy {training:.4f} in training, {unseen:.4f} on unseen pictures", file=sys.stderr)
    if min(training, unseen) <= REQUIRED_ACCURACY:
        sys.exit(f"train_mlp: error: accuracy must be over {REQUIRED_ACCURACY}; {target} is not written")
    arrays = {}
    for index, (weights, bias) in enumerate(layers):
        arrays[f"w{index}"], arrays[f"b{index}"] = weights, bias
    np.savez(target, **arrays)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: train_mlp.py WEIGHTS.npz")
    main(sys.argv[1])
