"""Answers with the words of the prompt, one response each, at most `max_tokens` of them."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self._answer(request)
        return None

    def _answer(self, request):
        sender = request.get_response_sender()
        text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().reshape(-1)[0]
        limit = pb_utils.get_input_tensor_by_name(request, "max_tokens")
        words = text.split() or [b"-"]
        if limit is not None:
            words = words[: max(1, int(limit.as_numpy().reshape(-1)[0]))]
        for word in words:
            tensor = pb_utils.Tensor("text_output", np.array([word + b" "], dtype=np.object_))
            sender.send(pb_utils.InferenceResponse([tensor]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
