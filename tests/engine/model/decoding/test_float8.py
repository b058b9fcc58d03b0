"""FP8 numbers widened by their bits: what torch's own conversion gives, for every one of them."""

import torch

from engine.model.decoding.float8 import widened
from tests.engine.model.formats.packed_files import same_bits


def test_every_number_is_widened_as_torch_does() -> None:
    every = torch.arange(256, dtype=torch.uint8)
    numbers = every[(every & 127) < 127].view(torch.float8_e4m3fn).view(2, 127)
    assert same_bits(widened(numbers), numbers.float())
    assert same_bits(widened(numbers[1:]), numbers[1:].float())
    assert widened(numbers[:0]).shape == (0, 127)


def test_what_is_no_number_stays_none() -> None:
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    found = widened(every)
    assert found.isnan().nonzero().view(-1).tolist() == [127, 255]
    assert torch.equal(found[~found.isnan()], every.float()[~found.isnan()])


def test_the_other_kind_of_8_bits_is_left_to_torch() -> None:
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e5m2)
    assert torch.equal(widened(every).nan_to_num(), every.float().nan_to_num())
