"""In place of the reader's child: tells what its environment holds."""

import json
import os

print(json.dumps({"text": " ".join(sorted(os.environ)), "pages": 0}))
