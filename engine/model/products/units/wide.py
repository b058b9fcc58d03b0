"""As many float32 numbers as fill a register of the processor: sixteen with AVX-512, eight elsewhere.

Which of both is known when loops are compiled; their code is kept for each kind of processor.
"""

from engine.model.products.units import sixteen
from engine.model.products.units.digits import features
from engine.model.products.vectors import fused, numbers, store, total

WIDE = 16 if "+avx512f" in features() else 8

wide_numbers = sixteen.sixteen_numbers if WIDE == 16 else numbers
"""Numbers of an array, from an index on."""
wide_store = sixteen.many_store if WIDE == 16 else store
"""Write them into an array of float32, from an index on."""
wide_fused = sixteen.many_fused if WIDE == 16 else fused
"""a x b + c, rounded once where the processor can."""
wide_total = sixteen.many_total if WIDE == 16 else total
"""The sum of all, in a fixed order."""
