"""On PYTHONPATH of a vLLM whose torchvision was built for another torch: Python runs this at its start, and so does
every process that vLLM starts to look at a model. See `automem/models/companions.py`; text needs none of them.
"""

import sys

for name in ("torchvision", "torchaudio", "torchcodec"):
    sys.modules[name] = None  # type: ignore[assignment]
