"""Multiplies its input by 64 matrices on the GPU, and says for how long the GPU was at it (GPU_MS, by the GPU's clock).

Tensors are passed on by DLPack: inputs in GPU memory stay there, OUTPUT0 is handed over there, and NumPy is not needed.
"""

import torch
import triton_python_backend_utils as pb_utils

SIZE, MATRICES = 4096, 64


class TritonPythonModel:
    def initialize(self, args):
        self.device = torch.device("cuda", int(args["model_instance_device_id"]))
        torch.cuda.set_device(self.device)
        torch.manual_seed(0)
        shape = {"device": self.device, "dtype": torch.bfloat16}
        self.matrices = [torch.randn(SIZE, SIZE, **shape) / SIZE**0.5 for _ in range(MATRICES)]
        for rows in (1, 8, 16, 32, 64):
            self.multiply(torch.zeros(rows, SIZE, **shape))

    def multiply(self, rows):
        """The product, and the milliseconds that the GPU took."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for matrix in self.matrices:
            rows = rows @ matrix
        end.record()
        end.synchronize()
        return rows, start.elapsed_time(end)

    def execute(self, requests):
        inputs = [torch.from_dlpack(pb_utils.get_input_tensor_by_name(request, "INPUT0")) for request in requests]
        rows = torch.cat([tensor.to(self.device) for tensor in inputs]).to(torch.bfloat16)
        products, ms = self.multiply(rows)
        parts = products.float().split([len(tensor) for tensor in inputs])
        torch.cuda.synchronize(self.device)
        return [self.response(part.contiguous(), ms) for part in parts]

    @staticmethod
    def response(part, ms):
        tensors = {"OUTPUT0": part, "GPU_MS": torch.full((len(part), 1), ms)}
        return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack(name, tensor) for name, tensor in tensors.items()])
