"""What several commands say of the options that they share."""

TARGET = "embedded, a folder, a GGUF file, or the id of a downloaded model (default: %(default)s)"
DRAFT = (
    "the same, self (copies of what streams, in 4 bits), heads (the target's own), SOURCE+heads (both), or none "
    "(default: embedded beside the embedded target, else none)"
)
WEIGHTS = "number type of the target's weights; auto as the device computes best (default: %(default)s)"
CONTEXT = "longest prompt and answer together (default: what the model reads and memory holds, 8192 at most)"
KV = (
    "keys and values: auto as they are computed; 8 in 8 bits, each within 1/127 of the largest beside it; fit in 8 "
    "bits where they do not fit otherwise (default: %(default)s)"
)
VRAM = "GPU memory to take at most, in GiB (default: what is free)"
CACHE = "keeps what was measured, prepared and read (default: the folder that this system has for caches)"
RAM = "RAM to take at most, in GiB (default: what is free)"
