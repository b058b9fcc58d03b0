"""Tests of the scripts that build what is shipped."""
