"""Engines elsewhere, reached over HTTP as OpenAI's is: their answers as the events of the local engine."""
