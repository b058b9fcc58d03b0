"""Types of numpy's arrays: what is decided about trees is decided there, as its calls cost less than torch's."""

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
