"""Writes the .npz and .npy files that npz_test.cpp reads: what numpy itself makes is the reference. Needs numpy only."""

import pathlib

import numpy as np

here = pathlib.Path(__file__).parent
arrays = {
    "scores": np.array([[0.5, -1.25, np.inf], [3.0, 4.0, -5.0]], np.float32),
    "/layer/ids:0": np.array([2**40, -3, 7], np.int64),
    "mask": np.array([True, False, True]),
    "half": np.array(0.333251953125, np.float16),
    "empty": np.zeros((0, 4), np.uint8),
}
np.savez(here / "stored.npz", **arrays)
np.savez_compressed(here / "deflated.npz", **arrays, ramp=np.arange(5000, dtype=np.int32))
np.save(here / "plain.npy", arrays["scores"])
np.save(here / "fortran.npy", np.asfortranarray(arrays["scores"]))
np.save(here / "big_endian.npy", arrays["scores"].astype(">f4"))
np.save(here / "objects.npy", np.array([{}, None], dtype=object))
