"""The base class of everything in an explanation."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """An immutable record of named fields, and of no others."""

    model_config = ConfigDict(frozen=True, extra="forbid")
