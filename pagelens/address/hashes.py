"""Address hashes that come with pagelens. A hash says which slice, channel or bank an address selects.

core/address/address_hash.hpp defines what a file states. Its masks stand least significant bit first.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from pagelens import _core
from pagelens.values.directory import known_file, list_files
from pagelens.values.quantities import Table
from pagelens.values.toml_file import parse_toml, read_bytes

EXAMPLE = "machines/hashes/spr-60.toml"


def _mask(text: Any) -> int:
    try:
        return int(text, 16)
    except (TypeError, ValueError):
        raise ValueError(f'{text!r} is no mask of address bits; write one such as "0x1b5f575440"') from None


Mask = Annotated[int, BeforeValidator(_mask), Field(gt=0, lt=1 << 56)]


class Modulo(Table):
    """address / 2^shift modulo `divisor`. The three channels of a Skylake take turns this way."""

    shift: int = Field(ge=0, lt=56)
    divisor: int = Field(ge=3, lt=1 << 31)


class Level(Table):
    """One part of a hash: low bits, and above them a number cut down by a threshold, or a remainder."""

    low: list[Mask] = Field(max_length=31)
    high: list[Mask] = Field(default=[], max_length=31)
    threshold: int | None = Field(default=None, gt=0, lt=1 << 31)
    keep_bits: int | None = Field(default=None, ge=0, le=31)
    modulo: Modulo | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if len({bool(self.high), self.threshold is not None, self.keep_bits is not None}) > 1:
            raise ValueError("high, threshold and keep_bits belong together; state all three or none")
        if self.high and self.modulo:
            raise ValueError("a level has high or modulo above its low bits; state one of them")
        return self

    def form(self) -> _core.HashLevel:
        """Return the level for the core."""
        if self.threshold is not None and self.keep_bits is not None:
            return _core.HashLevel(self.low, _core.HashHigh(self.high, self.threshold, self.keep_bits), None)
        if self.modulo is not None:
            return _core.HashLevel(self.low, None, _core.HashModulo(self.modulo.shift, self.modulo.divisor))
        return _core.HashLevel(self.low, None, None)


class HashFile(Table):
    """A file of machines/hashes/."""

    version: Literal[1] = Field(alias="schema")
    name: str
    title: str
    source: str
    values: int = Field(gt=0, lt=1 << 32)  # it selects one of 0 to values - 1
    highest_bit: int = Field(ge=6, lt=56)  # the highest address bit that the form is known for
    group: list[Mask] = Field(default=[], max_length=31)
    group_values: int | None = Field(default=None, gt=0, lt=1 << 32)
    level: list[Level] = Field(min_length=1)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if bool(self.group) != (self.group_values is not None):
            raise ValueError("group and group_values belong together; state both or none")
        reached = self.hash().values
        if reached != self.values:
            raise ValueError(f"values = {self.values}, but the form has {reached}")
        masks = [*self.group, *(mask for level in self.level for mask in (*level.low, *level.high))]
        if any(mask >> (self.highest_bit + 1) for mask in masks):
            raise ValueError(f"a mask has a bit above highest_bit = {self.highest_bit}")
        if any(level.modulo and level.modulo.shift > self.highest_bit for level in self.level):
            raise ValueError(f"a modulo's shift lies above highest_bit = {self.highest_bit}")
        return self

    def hash(self) -> _core.AddressHash:
        """Return the hash. It is valid for addresses below 2^(highest_bit + 1)."""
        groups = self.group_values or self.values
        return _core.AddressHash([level.form() for level in self.level], groups, self.group)


def list_hashes() -> dict[str, Path]:
    """Name -> file of the hashes that come with pagelens."""
    return list_files("hashes")


def load_hash(name: str) -> HashFile:
    """Return the hash of that name. Raises UsageError."""
    path = known_file("address hash", "hashes", name)
    return parse_hash(read_bytes(path, "address hash"), str(path))


def parse_hash(raw: bytes, where: str) -> HashFile:
    """Return the hash that a file's bytes state. `where` names the file in errors."""
    return parse_toml(HashFile, raw, where, EXAMPLE)
