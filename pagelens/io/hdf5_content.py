"""What a file of HDF5 holds, as a digest that does not depend on where in the file it lies.

Links, types, shapes, filters, attributes and all values count. Addresses in the file, times of changes and
unused space do not.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import h5py

_PART_BYTES = 16 << 20
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def can_compare() -> bool:
    """Return whether h5py is installed."""
    return importlib.util.find_spec("h5py") is not None


def is_hdf5(path: Path) -> bool:
    """Return whether a file begins as those of HDF5 do, perhaps behind a block of the user's."""
    try:
        with path.open("rb") as file:
            found = file.read(len(_SIGNATURE)) == _SIGNATURE
            at = 512
            while not found and at < path.stat().st_size:
                file.seek(at)
                found = file.read(len(_SIGNATURE)) == _SIGNATURE
                at *= 2
            return found
    except OSError:
        return False


def content_digest(path: Path) -> str:
    """Return a digest of all that a reader finds in a file of HDF5. Raises OSError if it is damaged."""
    import h5py

    found = hashlib.sha256()
    try:
        with h5py.File(path, "r") as file:
            if file.userblock_size:
                with path.open("rb") as raw:
                    found.update(raw.read(file.userblock_size))
            for part in _objects(file, {}, file):
                found.update(part)
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        raise OSError(f"HDF5 cannot read it: {error}") from None
    return found.hexdigest()


def _objects(group: h5py.Group, known: dict[int, str], file: h5py.File) -> Iterator[bytes]:
    """Yield a group's attributes and links, and all that is beneath them, in the order of the names.

    `known` has the name of each object by its address: an object with several names counts once.
    """
    import h5py

    known[h5py.h5o.get_info(group.id).addr] = group.name
    yield from _attributes(group, file)
    for name in sorted(group):
        link = group.get(name, getlink=True)
        yield f"{group.name}/{name}: {type(link).__name__}".encode()
        if not isinstance(link, h5py.HardLink):
            yield f"{getattr(link, 'filename', '')}:{link.path}".encode()
            continue
        found = group[name]
        address = h5py.h5o.get_info(found.id).addr
        if address in known:
            yield known[address].encode()
        elif isinstance(found, h5py.Group):
            yield from _objects(found, known, file)
        else:
            known[address] = found.name
            yield from _attributes(found, file)
            yield from _data(found, file) if isinstance(found, h5py.Dataset) else (found.id.encode(),)


def _attributes(of: Any, file: h5py.File) -> Iterator[bytes]:
    import h5py

    for name in sorted(of.attrs):
        kind = h5py.h5a.open(of.id, name.encode()).get_type()
        yield f"@{name} {of.attrs.get_id(name).shape}".encode() + kind.encode()
        yield from _values(of.attrs[name], file)


def _data(data: h5py.Dataset, file: h5py.File) -> Iterator[bytes]:
    names = ("shape", "maxshape", "chunks", "compression", "compression_opts", "shuffle", "fletcher32",
             "scaleoffset", "external", "is_virtual")  # fmt: skip
    yield data.id.get_type().encode()
    yield repr([getattr(data, name) for name in names]).encode()
    if data.is_virtual:
        yield repr(data.virtual_sources()).encode()
    if data.shape is None:
        return
    yield from _values(data.fillvalue, file)
    if not data.shape or 0 in data.shape:
        yield from _values(data[()], file)
        return
    row = max(1, data.dtype.itemsize * int(np.prod(data.shape[1:], dtype=np.int64)))
    rows = max(1, _PART_BYTES // row)
    for at in range(0, data.shape[0], rows):
        yield from _values(data[at : at + rows], file)


def _values(values: Any, file: h5py.File) -> Iterator[bytes]:
    """Yield values as bytes.

    References are addresses in the file, so the name of what they lead to counts.
    """
    import h5py

    if isinstance(values, h5py.Reference | h5py.RegionReference):
        yield f"{type(values).__name__} to {file[values].name if values else None}".encode()
        if values and isinstance(values, h5py.RegionReference):
            yield h5py.h5r.get_region(values, file.id).encode()
    elif isinstance(values, np.ndarray | np.void) and values.dtype.names is not None:
        for name in values.dtype.names:  # between the fields there can be unused bytes
            yield from _values(values[name], file)
    elif isinstance(values, np.ndarray) and values.dtype.hasobject:
        for value in values.ravel():
            if isinstance(value, np.ndarray):  # else the end of one row could be the beginning of the next
                yield repr(value.shape).encode()
            yield from _values(value, file)
    elif isinstance(values, np.ndarray | np.generic):
        yield np.ascontiguousarray(values).tobytes()
    else:
        yield repr(values).encode()
