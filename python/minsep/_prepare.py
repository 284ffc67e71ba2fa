"""From the owners of examples to a run directory, by `minsep prepare`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _command
from ._account import Flag, _arguments
from ._arguments import shown
from ._files import Directory
from ._run import Run
from ._tree import flatten
from .errors import CommandError

_FOLDER, _TABLE = "prepare", "owners.parquet"
_LARGEST = 1 << 53  # below it, every whole number is a float64


def prepare(
    path: str | os.PathLike[str],
    *,
    owners: Any,
    model: Any,
    column: str | None = None,
    example_column: str | None = None,
    unowned: str | None = None,
    owner: str | None = None,
    example: str | None = None,
    plan: int | str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    command: str | None = None,
    **flags: Flag,
) -> Run:
    """Prepares a training in the run directory path: who takes part when, with how much noise, and
    the certificate of that. It prints whom the claim protects, how much of the data takes part, and
    what it costs.

        run = minsep.prepare("run", owners=table["user"], model=model, epochs=3, batch_size=256, epsilon=8)

    Example i is row i of the data, and the batches of the result are positions in them. owners are
    its owners: an array or a column of whole numbers or strings (NumPy, pandas, polars, Arrow), or
    lists of them where examples have several. Or owners is the path of a Parquet or CSV file, and
    column its column; with example_column too, the file has a row for each example and owner, and
    the result is for `Run.join`. Rows without an owner are refused; unowned="drop" leaves them out.

    model gives the number of trained coordinates: a module of PyTorch, a tree of JAX or NumPy, or
    the number itself. Further arguments are the flags of `minsep prepare`: epsilon, batch_size, and
    epochs or steps, which must be given; delta, by default a tenth of one over the number of owners;
    examples_per_owner, max_per_owner, owner_separator, sample, clip_norm, optimizer, schedule, momentum. Where each
    example has one owner, owners take part, and all examples do: batch_size then counts owners.
    plan is the number of a row of `minsep plan`, or the file of a plan. owner and example are the
    nouns of these data, such as "author" and "photo", for what is printed and for reports.

    key is the file of the root key: by default that of MINSEP_KEY, or ~/.config/minsep/key, which is
    made where there is none. An interrupted call goes on when it is repeated. Another call for the
    same directory is refused, with what differs (UsageError, as all faults of the flags).
    """
    out = os.fspath(path)
    if "://" in out:
        raise ValueError(f"path {out}: must be a folder of this machine: on object stores, run `minsep prepare`")
    Directory(out)  # refuses what is no path
    arguments = [f"--out={out}", f"--coordinates={_coordinates(model)}"]
    arguments += [f"--{name}-noun={noun}" for name, noun in (("owner", owner), ("example", example)) if noun is not None]
    if key is not None:
        arguments.append(f"--key={os.fspath(key)}")
    if plan is not None:
        arguments.append(f"--row={plan}" if isinstance(plan, int) else f"--plan={os.fspath(plan)}")
    if unowned not in (None, "drop"):
        raise ValueError(f"unowned {shown(unowned)}: must be \"drop\", which leaves out examples without an owner, or left out")
    rows = None
    if example_column is not None:
        if not isinstance(owners, (str, os.PathLike)) or column is None:
            raise ValueError("example_column: needs owners, the path of a file, and column, its column of owners")
        arguments += [f"--example-column={example_column}", f"--owner-column={column}"] + ["--skip-ownerless"] * (unowned == "drop")
        file = os.fspath(owners)
    else:
        given = _read(owners, column) if isinstance(owners, (str, os.PathLike)) else owners
        rows, table = _table(given, unowned == "drop")
        file = _write(out, table)
        arguments.append("--owner-column=owner_id")
    try:
        done = _command.watched(["prepare", file, *arguments, *_arguments(flags)], command)
    except CommandError as err:
        raise type(err)(_keywords(str(err)), err.code) from None
    print("\n".join([*done["lines"], *done["next"]]))
    run = Run(out, command=command)
    run._key = done["key"]
    return run if rows is None else run.join(np.arange(rows))


def _coordinates(model: Any) -> int:
    """The number of trained coordinates of a model."""
    if hasattr(model, "__index__"):
        return int(model)
    if callable(getattr(model, "named_parameters", None)):
        count = sum(int(p.numel()) for _, p in model.named_parameters() if p.requires_grad)
    else:
        count = 0 if isinstance(model, str) else sum(math.prod(leaf.shape) for _, leaf in flatten(model, "model")[0])
    if not count:
        raise ValueError(f"model {shown(model)}: must be a module with a parameter that requires a gradient, a tree of arrays or a whole number")
    return count


def _keywords(words: str) -> str:
    """The command's words with arguments of `prepare` in the place of flags, but for commands to
    type."""
    words = re.sub(r"^[a-z]+\.|,? or (by )?--again NEW[^;.:]*", "", words)  # a field of a plan, and a way out that prepare has not
    names = {"out": "path", "coordinates": "model", "row": "plan"}
    return re.sub(r"minsep [a-z]+(?: --[a-z-]+(?: [^-\s:]+)?)*|--([a-z-]+)", lambda m: names.get(m[1], m[1].replace("-", "_")) if m[1] else m[0], words)


def _read(path: Any, column: str | None) -> Any:
    """A column of a file."""
    if column is None:
        raise ValueError("column: must be given with a path: the name of the column of owners")
    name = os.fspath(path)
    import pyarrow as pa

    try:
        if name.lower().endswith((".csv", ".csv.gz")):
            import pyarrow.csv as csv

            return csv.read_csv(name, convert_options=csv.ConvertOptions(include_columns=[column], strings_can_be_null=True))[column]
        import pyarrow.parquet as parquet

        return parquet.read_table(name, columns=[column])[column]
    except (pa.ArrowException, KeyError) as err:
        raise ValueError(f"owners {name}: cannot be read, or has no column {column!r}: {str(err).splitlines()[0]}") from None


def _table(owners: Any, drop: bool) -> tuple[int, Any]:
    """The number of rows, and a table of their positions and owners."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _arrow(owners)
    rows = len(column)
    if rows == 0:
        raise ValueError("owners: are none: must be one for each example of the data")
    missing = column.is_null()
    several = pa.types.is_list(column.type)
    if several:
        missing = pc.or_(missing, pc.equal(pc.fill_null(pc.list_value_length(column), 0), 0))
        if column.flatten().null_count:
            raise ValueError("owners: a list has a null among its owners: give the owners that are known, or an empty list where there is none")
    elif pa.types.is_large_string(column.type):
        missing = pc.or_(missing, pc.equal(pc.fill_null(column, ""), ""))
    count = pc.sum(missing).as_py() or 0
    if count and not drop:
        raise ValueError(f'owners: {count} of {rows} rows have no owner: no bound would hold for them; give them one, or unowned="drop", which leaves them out of the training')
    table = pa.table({"example_id": pa.array(np.arange(rows)), "owner_id": column})
    return rows, table.filter(pc.invert(missing)) if count else table


def _arrow(owners: Any) -> Any:
    """Owners as an Arrow array of int64, strings or bytes, or of lists of them."""
    import pyarrow as pa

    if hasattr(owners, "columns") or isinstance(owners, Mapping):
        raise ValueError(f"owners: is a {type(owners).__name__}, of several columns: give the one of the owners, such as table[\"user\"]")
    if hasattr(owners, "to_arrow"):  # polars
        owners = owners.to_arrow()
    if not isinstance(owners, (pa.Array, pa.ChunkedArray)):
        try:
            if getattr(owners, "ndim", 1) != 1:
                raise ValueError(f"must be of one dimension, and not {owners.ndim}: a list of lists where examples have several owners")
            owners = pa.array(owners, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError) as err:
            raise ValueError(f"owners: must be a column of whole numbers or strings, or lists of them, one for each example: {err}") from None
    column = owners.combine_chunks() if isinstance(owners, pa.ChunkedArray) else owners
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_floating(column.type):
        column = _whole(column)
    kind = column.type
    inner = kind.value_type if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) else kind
    for wanted, tests in ((pa.int64(), (types.is_integer, types.is_null)), (pa.large_string(), (types.is_string, types.is_large_string)), (pa.large_binary(), (types.is_binary, types.is_large_binary))):
        if any(test(inner) for test in tests):
            return column.cast(wanted if inner is kind else pa.list_(wanted))
    raise ValueError(f"owners: are of type {kind}: must be whole numbers or strings, or lists of them: what names a person exactly, and not a measure or a time")


def _whole(column: Any) -> Any:
    """Whole numbers that became floats since some are missing, as pandas has them."""
    import pyarrow.compute as pc

    column = pc.if_else(pc.is_nan(column), None, column)
    known = column.drop_null().to_numpy(zero_copy_only=False)
    if np.any(known != np.trunc(known)) or np.any(np.abs(known) >= _LARGEST):
        raise ValueError(f"owners: are floating-point numbers of type {column.type}, some of them not whole, or too large to be exact: give whole numbers, or strings")
    return column.cast("int64")


def _write(out: str, table: Any) -> str:
    """Writes the owners into the run directory. Others that are there are refused."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    folder = os.path.join(out, _FOLDER)
    path = os.path.join(folder, _TABLE)
    if os.path.exists(os.path.join(folder, "request.json")):
        try:
            before = parquet.read_table(path)
        except (OSError, pa.ArrowException) as err:
            raise ValueError(f"{path}: cannot be read any more, and the run was prepared from it: {err}; give another path") from None
        if not before.equals(table):
            raise ValueError(f"owners: are not those from which {out} was prepared: {before.num_rows} rows then, {table.num_rows} now, or others; give another path, or the owners of before")
        return path
    os.makedirs(folder, mode=0o700, exist_ok=True)
    parquet.write_table(table, path + ".new")
    os.chmod(path + ".new", 0o600)
    os.replace(path + ".new", path)
    return path
