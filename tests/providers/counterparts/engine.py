"""A real engine to test against: llama.cpp's own server, answering with a tiny model of random weights.

Run as a script with a folder to put the model in. It prints the base URL when it listens, asks for API_KEY, and
stops when its standard input closes. What the model says is noise; that it is said through a real server is the point.
"""

import random
import struct
import sys
from array import array
from pathlib import Path

WIDTH, LAYERS, HEADS, FEED, CONTEXT = 64, 2, 4, 128, 4096
ALIGNMENT = 32
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5  # value types of the GGUF format
CONTROL, UNKNOWN, BYTE = 3, 2, 6  # token types of its tokenizer
TEMPLATE = "{%- for message in messages %}{{ message.role }}: {{ message.content or '' }}\n{%- endfor %}"
API_KEY = "engine-key-0123456789"
Tensor = tuple[str, tuple[int, ...], array]


def packed(text: str) -> bytes:
    """A GGUF string: its length, then its bytes."""
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind: int, content: object) -> bytes:
    """One value without its type."""
    if kind == STRING:
        return packed(str(content))
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], content)


def field(key: str, kind: int, content: object) -> bytes:
    """One line of metadata."""
    return packed(key) + struct.pack("<I", kind) + value(kind, content)


def listed(key: str, kind: int, content: list) -> bytes:
    """One line of metadata holding a list."""
    head = packed(key) + struct.pack("<IIQ", ARRAY, kind, len(content))
    return head + b"".join(value(kind, item) for item in content)


def metadata() -> list[bytes]:
    """A llama of two layers that knows the 256 bytes and three marks."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    return [
        field("general.architecture", STRING, "llama"),
        field("general.name", STRING, "tiny-random"),
        field("general.file_type", UINT32, 0),
        field("llama.context_length", UINT32, CONTEXT),
        field("llama.embedding_length", UINT32, WIDTH),
        field("llama.block_count", UINT32, LAYERS),
        field("llama.feed_forward_length", UINT32, FEED),
        field("llama.attention.head_count", UINT32, HEADS),
        field("llama.attention.head_count_kv", UINT32, HEADS),
        field("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        field("llama.rope.dimension_count", UINT32, WIDTH // HEADS),
        field("llama.vocab_size", UINT32, len(tokens)),
        field("tokenizer.ggml.model", STRING, "llama"),
        listed("tokenizer.ggml.tokens", STRING, tokens),
        listed("tokenizer.ggml.scores", FLOAT32, [0.0] * len(tokens)),
        listed("tokenizer.ggml.token_type", INT32, [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256),
        field("tokenizer.ggml.bos_token_id", UINT32, 1),
        field("tokenizer.ggml.eos_token_id", UINT32, 2),
        field("tokenizer.ggml.unknown_token_id", UINT32, 0),
        field("tokenizer.chat_template", STRING, TEMPLATE),
    ]


def tensors() -> list[Tensor]:
    """Random weights, the same on every run."""
    source = random.Random(0)

    def drawn(name: str, *shape: int, scale: float = 0.05) -> Tensor:
        size = shape[0] * shape[1]
        return name, shape, array("f", (source.gauss(0, scale) for _ in range(size)))

    def ones(name: str) -> Tensor:
        return name, (WIDTH,), array("f", [1.0] * WIDTH)

    vocabulary = 259
    made = [
        drawn("token_embd.weight", WIDTH, vocabulary, scale=0.5),
        ones("output_norm.weight"),
        drawn("output.weight", WIDTH, vocabulary),
    ]
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        made += [ones(block + "attn_norm.weight"), ones(block + "ffn_norm.weight")]
        made += [drawn(f"{block}attn_{part}.weight", WIDTH, WIDTH) for part in ("q", "k", "v", "output")]
        made += [drawn(f"{block}ffn_{part}.weight", WIDTH, FEED) for part in ("gate", "up")]
        made.append(drawn(f"{block}ffn_down.weight", FEED, WIDTH))
    return made


def padding(size: int) -> bytes:
    """Zeros up to the next border."""
    return b"\0" * (-size % ALIGNMENT)


def write_model(path: Path) -> None:
    """Write the model as a GGUF file."""
    fields, weights = metadata(), tensors()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(fields)) + b"".join(fields)
    data = b""
    for name, shape, numbers in weights:
        head += packed(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += numbers.tobytes()
        data += padding(len(data))
    path.write_bytes(head + padding(len(head)) + data)


def main() -> None:
    """Serve until the standard input closes."""
    import xllamacpp

    model = Path(sys.argv[1]) / "tiny.gguf"
    write_model(model)
    settings = xllamacpp.CommonParams()
    settings.model.path = str(model)
    settings.model_alias = {"tiny-random"}
    settings.n_ctx = CONTEXT
    settings.n_predict = 200
    settings.port = 0
    settings.hostnames = ["127.0.0.1"]
    settings.use_jinja = True
    settings.api_keys = [API_KEY]
    settings.cpuparams.n_threads = 2
    server = xllamacpp.Server(settings)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
