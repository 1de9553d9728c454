#!/usr/bin/env python3
"""Cosine similarity of the rows of a tensor in an .npz file, each row with its line of a text file.

    tools/report/similarity.py OUTPUTS.npz TENSOR LABELS.txt
"""
import array
import ast
import math
import struct
import sys
import zipfile


def rows(path, name):
    """A little-endian f32 or f64 matrix of the file (format: NumPy's .npy 1.0 to 3.0)."""
    with zipfile.ZipFile(path) as z:
        data = z.read(name + ".npy")
    wide = data[6] > 1
    size = struct.unpack("<I", data[8:12])[0] if wide else struct.unpack("<H", data[8:10])[0]
    start = (12 if wide else 10) + size
    header = ast.literal_eval(data[12 if wide else 10 : start].decode("latin1"))
    code = {"<f4": "f", "<f8": "d"}.get(header["descr"])
    if code is None or len(header["shape"]) != 2 or header["fortran_order"]:
        sys.exit(f"{path}: '{name}' is no matrix of f32 or f64")
    values = array.array(code, data[start:])
    columns = header["shape"][1]
    return [values[i : i + columns] for i in range(0, len(values), columns)]


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    path, name, labels = sys.argv[1:]
    matrix = rows(path, name)
    length = [math.sqrt(sum(x * x for x in r)) for r in matrix]
    print(f"cosine similarity of {name}")
    with open(labels, encoding="utf-8") as f:
        for a, r, label in zip(length, matrix, f.read().splitlines()):
            cosines = (sum(x * y for x, y in zip(r, s)) / (a * b) for b, s in zip(length, matrix))
            print(" ".join(f"{c:6.3f}" for c in cosines), "", label)


main()
