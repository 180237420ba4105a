"""Digit classifier for Triton's python backend: PIXELS [n, 64] to PROBABILITIES [n, 10]."""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


class TritonPythonModel:
    def initialize(self, args):
        """Loads the weights that lie beside this file: w0, b0, w1, b1, ... from the first layer to the last."""
        version_folder = Path(args["model_repository"]) / args["model_version"]
        with np.load(version_folder / "weights.npz") as arrays:
            self.layers = [(arrays[f"w{i}"], arrays[f"b{i}"]) for i in range(len(arrays.files) // 2)]

    def predict(self, pixels):
        """Rectified linear units between layers, class probabilities after the last one."""
        values = pixels
        for weights, bias in self.layers[:-1]:
            values = np.maximum(values @ weights + bias, 0.0)
        weights, bias = self.layers[-1]
        return softmax(values @ weights + bias).astype(np.float32)

    def execute(self, requests):
        """All requests of the batch go through the network in one matrix product per layer."""
        pixels = [pb_utils.get_input_tensor_by_name(request, "PIXELS").as_numpy() for request in requests]
        probabilities = self.predict(np.concatenate(pixels))
        ends = np.cumsum([len(part) for part in pixels])[:-1]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("PROBABILITIES", np.ascontiguousarray(part))])
            for part in np.split(probabilities, ends)
        ]
