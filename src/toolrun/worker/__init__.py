"""What runs inside a script's environment: standard library only, Python 3.9 or newer, imports nothing of ours.

The host starts `__main__.py` by its path, under the script's own interpreter; the contract between the two is there.
"""

import os

DIRECTORY = os.path.dirname(os.path.abspath(__file__))
