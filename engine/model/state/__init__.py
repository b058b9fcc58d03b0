"""Token trees on layers that keep a state: what each node reads and writes, from the state at the root alone.

A pass is either a *chain* (tokens of a prompt, committed at once) or a *tree* (nodes that stay pending). transformers'
modules run both; what differs in a tree is done by two functions that they call, the short convolution and the scan:

- `mixers.TreeMixer` stands in for `forward` of a module that keeps a state. In a chain it is the module's own
  `forward`; in a tree it is the same code, with those two functions replaced. `mixers.SCANS` names, by the function of
  transformers that it replaces, what scans a tree: `(layer, *what the library's function is given) -> (output, state)`.
  It asks `layer.state` for the state at the root and `layer.tree.paths` for the tree, and hands to `layer.add` what the
  new nodes write, with the function that takes a state along a path of them. A further kind of layer is one such
  function, and its families in `families/state_families.py`. Those of `mixers.IN_CHAINS` are replaced in chains too.
- `lightning.LightningMixer` stands in for a `forward` that keeps its state in a cache of its own; `mixers.WHOLE` names
  the modules that are replaced so.
- `node_mixer.NodeMixer` stands in for `forward` of a module that reads a few inputs back from each token: in a tree it
  is the module's own, with the nodes as its batch, each behind what stands before it on its path.
- `state_layer.StateLayer` is what the module takes for its layer of the cache: state and convolution tail at the root,
  behind the last committed token, and what pending nodes wrote, but no state of any node.
- `state_cache.StateCache`, as `TreeCache.states`, does for all of them what `TreeCache` does for keys and values:
  `begin` before a pass, `commit` after a chain, `keep` a path, `truncate`, `rewind`. A state cannot be cut like keys
  and values, so `rewind` goes to the nearest snapshot before, and `Context` reads again from there.
- `tree_paths`, `gated_delta`, `mamba1`, `mamba2`, `short_convolution`, `writes`: the arithmetic, without modules or
  caches.

Where transformers computes a token that it generates otherwise than the same token in a prompt (Nemotron-H holds only
the time steps of a prompt to a limit), a tree is read as what it stands for: plain decoding. Only its first node behind
a prompt, which is the prompt's last token, counts as a part of it.
"""
