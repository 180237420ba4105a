"""A LitServe server of chat completions for scripts/services/openai: words at a known pace, and errors where a prompt asks for one."""

import sys
import time

import litserve


class Words(litserve.LitAPI):
    def setup(self, device):
        pass

    def predict(self, prompt):
        text = str(prompt)
        for number in range(8):
            if "fail" in text and number == 3:
                raise RuntimeError("out of luck")
            time.sleep(0.005)
            yield f"word{number} "


if __name__ == "__main__":
    server = litserve.LitServer(Words(), spec=litserve.OpenAISpec(), accelerator="cpu")
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="error")
