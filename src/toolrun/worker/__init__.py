"""What runs in a script's environment: standard library only, Python 3.9 or newer, imports nothing of ours.

The host starts `__main__.py` by its path, under the script's interpreter; the contract between the two is there. It
also imports what both need, so that a function is the same tool here and there: `describe` (signatures), `hint` and
`convert` (types), `docstring`, `normalise` (results).
"""

import os

DIRECTORY = os.path.dirname(os.path.abspath(__file__))
