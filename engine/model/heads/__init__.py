"""Heads that draft from the target's own hidden states: found in its checkpoint, loaded, and scored as trees.

- `hidden_states.HiddenStates` records what the target computed of every token: `Context.record` has it filled.
- `head_context.HeadContext` is the `Context` of a `Head`: it reads the text with the recorded hidden states, and nodes
  of a tree that the target has not seen with the head's own outputs. A further kind of head is another `Head`.
- `multi_token`: the heads that come with checkpoints. One is a decoder layer of the target's family between a
  projection of its own and the target's output matrix, so it is opened as a model of one layer.
"""
