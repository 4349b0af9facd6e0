"""Models in this process: any GGUF file, its output held to a grammar."""
