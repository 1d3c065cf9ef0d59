# SPDX-License-Identifier: MIT
"""
Types, shapes and strides: what a frame's bytes mean.

A frame has a size and metadata. What weir.share writes begins with a line that C can read as well,

    weir/1 float32 480x640x3

which is the type and the shape ("-" for a single number), in the order of C without gaps; the program's own bytes stand
behind it. Metadata that begins otherwise is left alone. All of it came from another process: it is believed only as far
as the frame's size allows.
"""

import functools
import re
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from weir._errors import Status, WeirError

METADATA_MAX = 256  # bytes, the program's own included
DIMENSIONS_MAX = 32
_LARGEST = 2**63 - 1
_LINE = re.compile(rb"weir/1 ([a-z][a-z0-9]{1,15}) (-|[0-9]{1,19}(?:x[0-9]{1,19}){0,31})\n")


class DType(NamedTuple):
    """A type of elements: name, type code and bits of DLPack, and the type string of NumPy, if there is one."""

    name: str
    code: int
    bits: int
    typestr: Optional[str]

    @property
    def size(self) -> int:
        return self.bits // 8


_KINDS = [("int", 0, "i", (8, 16, 32, 64)), ("uint", 1, "u", (8, 16, 32, 64)), ("float", 2, "f", (16, 32, 64))]
DTYPES = {
    f"{name}{bits}": DType(f"{name}{bits}", code, bits, ("|" if bits == 8 else "<") + letter + str(bits // 8))
    for name, code, letter, sizes in _KINDS
    for bits in sizes
}
DTYPES["bfloat16"] = DType("bfloat16", 4, 16, None)
DTYPES["complex64"] = DType("complex64", 5, 64, "<c8")
DTYPES["complex128"] = DType("complex128", 5, 128, "<c16")
DTYPES["bool"] = DType("bool", 6, 8, "|b1")


class Layout(NamedTuple):
    """Strides and offset are in elements."""

    dtype: DType
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    offset: int


def dtype_of(dtype: Any) -> DType:
    """Of a name, or a type of torch's or NumPy's."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    found = DTYPES.get(name[6:] if name.startswith("torch.") else name)
    if found is None:
        raise WeirError(Status.INVALID, f"dtype {dtype!r} cannot be shared: use one of {', '.join(DTYPES)}")
    return found


def _integers(what: str, numbers: Sequence[int]) -> Tuple[int, ...]:
    checked = tuple(int(number) for number in numbers)
    if len(checked) > DIMENSIONS_MAX or any(not 0 <= number <= _LARGEST for number in checked):
        raise WeirError(
            Status.INVALID, f"{what} {checked} cannot be: at most {DIMENSIONS_MAX} numbers from 0 to {_LARGEST}"
        )
    return checked


def _dense(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(min(step, _LARGEST))
        step *= max(extent, 1)
    return tuple(reversed(strides))


def bytes_of(dtype: DType, shape: Sequence[int]) -> int:
    count = dtype.size
    for extent in shape:
        count *= extent
    return count


def layout(
    size: int, shape: Sequence[int], dtype: Any, strides: Optional[Sequence[int]] = None, offset: int = 0
) -> Layout:
    """Checked: every element lies within `size` bytes."""
    if isinstance(dtype, str) and strides is None and not offset:
        return _dense_layout(size, tuple(shape), dtype)
    return _check(size, shape, dtype, strides, offset)


@functools.lru_cache(maxsize=256)
def _dense_layout(size: int, shape: Tuple[int, ...], dtype: str) -> Layout:
    return _check(size, shape, dtype, None, 0)


def _check(
    size: int, shape: Sequence[int], dtype: Any, strides: Optional[Sequence[int]], offset: int
) -> Layout:
    kind = dtype_of(dtype)
    extents = _integers("shape", shape)
    steps = _dense(extents) if strides is None else _integers("strides", strides)
    (start,) = _integers("offset", [offset])
    if len(steps) != len(extents):
        raise WeirError(Status.INVALID, f"{len(steps)} strides and {len(extents)} extents: give as many")
    last = start + sum((extent - 1) * step for extent, step in zip(extents, steps))
    needed = kind.size * (start if 0 in extents else last + 1)
    if needed > size:
        raise WeirError(
            Status.INVALID, f"{kind.name} of shape {extents} takes {needed} bytes, and there are {size}: see the shape"
        )
    return Layout(kind, extents, steps, start)


@functools.lru_cache(maxsize=256)
def _line(what: Layout) -> bytes:
    return f"weir/1 {what.dtype.name} {'x'.join(map(str, what.shape)) or '-'}\n".encode()


def write_metadata(what: Optional[Layout], own: bytes) -> bytes:
    line = b""
    if what is not None:
        line = _line(what)
    if len(line) + len(own) > METADATA_MAX:
        raise WeirError(
            Status.INVALID,
            f"metadata of {len(own)} bytes: at most {METADATA_MAX - len(line)}, as type and shape take {len(line)}",
        )
    return line + own


def read_metadata(size: int, metadata: bytes) -> Tuple[Optional[Layout], bytes]:
    """What it says of `size` bytes, and the program's own bytes. WeirError: it says what cannot be."""
    end = metadata.find(b"\n") + 1
    what = _read_line(size, metadata[:end])
    return what, metadata if what is None else metadata[end:]


@functools.lru_cache(maxsize=256)
def _read_line(size: int, line: bytes) -> Optional[Layout]:
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    name, text = found.group(1).decode(), found.group(2).decode()
    shape = [] if text == "-" else [int(extent) for extent in text.split("x")]
    try:
        return layout(size, shape, name)
    except WeirError as error:
        raise WeirError(Status.PROTOCOL, "the producer's metadata are wrong: " + error.text) from None
