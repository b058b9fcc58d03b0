"""Tests of what decoders of packed weights share."""
