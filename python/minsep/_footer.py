"""The footer of a Parquet file, read in Python: pyarrow ends the process where the metadata of a
column contradict the schema.

Sources: the Parquet format's `parquet.thrift`, and Thrift's compact protocol.
"""

from __future__ import annotations

from typing import Any

from ._files import Buffer

_MAGIC = b"PAR1"
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


class Column:
    """The metadata of the values of a column in a row group."""

    def __init__(self, chunk: dict[int, Any]):
        metadata = chunk[3]
        self.uncompressed: int = metadata[6]  # bytes
        self.dictionary: bool = 11 in metadata  # a page of distinct values, to which the others refer
        self.largest: bytes | None = metadata.get(12, {}).get(5)  # an integer in little-endian order, where the type is one
        if self.uncompressed < 0:
            raise ValueError("a negative size")


class Group:
    """A row group."""

    def __init__(self, fields: dict[int, Any]):
        self.rows: int = fields[3]
        self.columns = [Column(chunk) for chunk in fields[1]]


class Footer:
    """The rows and sizes that a Parquet file claims.

    It raises ValueError, or whatever else Python raises, where the bytes are no footer.
    """

    def __init__(self, data: Buffer):
        if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
            raise ValueError("not a Parquet file")
        size = int.from_bytes(data[-8:-4], "little")
        if size > len(data) - 12:
            raise ValueError("a footer longer than the file")
        fields = _Compact(data[len(data) - 8 - size : -8]).struct()
        self.rows: int = fields[3]
        self.groups = [Group(group) for group in fields[4]]


class _Compact:
    """Values of Thrift's compact protocol. Structs are dicts by the fields' numbers."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def integer(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise ValueError("a value longer than the footer")
        self.at += count
        return self.data[self.at - count : self.at]

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            kind = head & 0x0F
            if number in fields:
                raise ValueError("a field that is given twice")
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind)
        return fields

    def value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):
            return self.byte()
        if kind in (_I16, _I32, _I64):
            return self.integer()
        if kind == _DOUBLE:
            return self.take(8)
        if kind == _BINARY:
            return self.take(self.varint())
        if kind in (_LIST, _SET):
            head = self.byte()
            count = head >> 4 if head >> 4 != 15 else self.varint()
            return [self.value(head & 0x0F) for _ in range(count)]
        if kind == _MAP:
            count = self.varint()
            kinds = self.byte() if count else 0
            return [(self.value(kinds >> 4), self.value(kinds & 0x0F)) for _ in range(count)]
        if kind == _STRUCT:
            return self.struct()
        raise ValueError(f"a value of type {kind}")
