"""The script of an isolated tool: finds a function of the host's project again, and offers it as `call`.

Runs on the host's interpreter, so that toolrun can be imported, and the tool converts its arguments itself.
"""

import importlib
import importlib.util
import inspect
import json
import os
import sys

__all__ = ["call"]

_target = json.loads(os.environ.pop("TOOLRUN_ISOLATED"))
sys.path[:] = _target["search"] + [entry for entry in sys.path if entry not in _target["search"]]


def _load():  # type: () -> object
    name = _target["module"]
    if name != "__main__":
        try:
            module = importlib.import_module(name)
            if os.path.samefile(module.__file__ or "", _target["path"]):
                return module
        except (ImportError, OSError, TypeError):
            pass
    # A tool file that was loaded by its path, or the main program: under another name, so that its
    # `if __name__ == "__main__"` does not run.
    name = "__toolrun_main__" if name == "__main__" else name
    spec = importlib.util.spec_from_file_location(name, _target["path"])
    if spec is None or spec.loader is None:
        raise ImportError("cannot load {}".format(_target["path"]))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_tool = getattr(_load(), _target["function"])
_invoke = getattr(_tool, "invoke", None) or (lambda arguments: _tool(**arguments))

if inspect.iscoroutinefunction(getattr(_tool, "function", _tool)):

    async def call(**arguments):  # type: ignore[no-untyped-def]  # any tool
        """Call the tool."""
        return await _invoke(arguments)

else:

    def call(**arguments):  # type: ignore[no-untyped-def,misc]  # any tool
        """Call the tool."""
        return _invoke(arguments)
