"""Models made for a study: the native identity, with tensors of the size that the study wants."""

from pathlib import Path

CONFIG = """backend: "bench"
max_batch_size: 1
input [{{ name: "INPUT0" data_type: TYPE_FP32 dims: [{elements}] }}]
output [{{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [{elements}] }}]
instance_group [{{ kind: KIND_CPU count: 1 }}]
"""


class Models:
    """A repository of models made for the study."""

    def __init__(self, folder, library):
        self.path, self._library = Path(folder), library

    def add(self, name, elements, more=""):
        version = self.path / name / "1"
        version.mkdir(parents=True)
        (version / "libtriton_bench.so").symlink_to(self._library)
        (version.parent / "config.pbtxt").write_text(CONFIG.format(elements=elements) + more)
        return name
