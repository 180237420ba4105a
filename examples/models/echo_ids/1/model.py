"""Answers with the first `request_output_len` of the request's token ids, one response each, over and over if there are fewer."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self._answer(request)
        return None

    def _answer(self, request):
        sender = request.get_response_sender()
        ids = pb_utils.get_input_tensor_by_name(request, "input_ids").as_numpy().reshape(-1)
        count = int(pb_utils.get_input_tensor_by_name(request, "request_output_len").as_numpy().reshape(-1)[0])
        for position in range(count):
            token = np.array([ids[position % len(ids)]], dtype=np.int32)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("output_ids", token)]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
