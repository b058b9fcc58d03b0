"""What takes too long for every change: run by hand before a release, and after changes of what they are about.

python -m tests.campaigns.faults    provokes every kind of fault and prints one table; one to two hours.
    Rows (--only NAME): engine and window killed 100 times each (20 min each), and 8
    times each with the real engine (3 min), 200 downloads through a hub that fails
    (3 min), 20 set-ups of the engine's runtime cut off (3 min), an engine out of memory 20 times (2 min), 10,000
    mutated model folders (10 min), 10,000 mutated chat imports and 10,000 mutated recordings (2 min each). Proves that
    nothing is lost, that whatever fails says so in a sentence, and that nothing is written outside its folder. Every
    failure is printed with its seed; --first SEED --count 1 repeats it. An interrupted run goes on where it was.

python -m tests.campaigns.proofs    the tests whose extent can be chosen, in their whole extent; about half an hour.
    - Text: for every family, method, several seeds and budgets, speculative greedy text is transformers' own text; the
      suite takes one seed, all families with SpecExec and Sequoia, three families with SpecInfer and chains.
    - Distributions: every outcome of small vocabularies enumerated under four sampling settings, and 3,000 real
      answers against the exact distribution; the suite enumerates two settings and takes 1,000 answers.
    - Automatic choice: 12 starts per simulated machine within 5 percent of the best fixed choice; the suite takes 5.
    - Memory: what loading, preparing and planning take, for more models and places; the suite measures one of each.
    - Properties: hypothesis tries five to eight times as many examples.
    - Real engines: wrong targets, killed windows and full contexts in all their forms; the suite takes one form each.
    - Kills of a runtime's set-up: 20; the suite takes 5.
    - Hours at the window: what a person does is done 60 times and leaves no object, thread or file; the suite does it 4
      times.

python -m tests.campaigns.conversations    random conversations with random pairs of tiny models: families, drafts,
    places, GGUF types, methods, sizes of trees, sampling, edits, stops and new loads by chance. Every log-probability
    is compared with transformers', every text with that of an engine without a draft. 200 cases take about ten
    minutes; --first SEED --count 1 repeats one. Run it after changes of what a pass, a cache or a round is.

python -m tests.campaigns.families    opens a tiny model of every family that transformers has, compares its trees and
    its text with transformers' own, and writes `resources/docs/families.md` and
    `engine/model/families/verified_families.py`; about a quarter of an hour. The suite makes a few rows again. Run it
    after another version of transformers.

python -m tests.campaigns.configs    changes every entry of the config.json of a tiny model of every family, one at a
    time, and makes, fills and runs its network: whatever is raised but a sentence is printed, and whatever takes more
    than three seconds or 3 GiB. About half an hour; FAMILY ... tries these alone. Run it after another version of
    transformers.

python -m tests.campaigns.llama_cpp    Coppice and llama.cpp on the same GGUF files: texts and tokens of the embedded
    pair; with --families probabilities of tiny models of every architecture that is read, four minutes. Needs
    `pip install xllamacpp`. Run it after changes of what reads GGUF files.

python -m tests.campaigns.llama_sampling    the probabilities that Coppice and llama.cpp draw the next token with,
    behind random texts that repeat themselves, with DRY and XTC; two minutes. Needs `pip install xllamacpp`. Run it
    after changes of how tokens are drawn.

python -m tests.campaigns.llama_server    llama.cpp's server and Coppice's, asked the same at llama-server's addresses:
    greedy texts, gaps, tokens, templates, and the types of all fields; half a minute. Needs `pip install xllamacpp`.
    Run it after changes of `engine/serving/llama_server`.

python -m tests.campaigns.across_hosts    a window and a server of Coppice in two network namespaces, with delay, loss
    and a cut cable between them; two minutes. Needs Linux, root and iproute2. Proves that nothing hangs, that the chat
    says what happened, and that the text so far stays.

python -m tests.campaigns.served    the server over the embedded pair: what schemathesis makes of its description (no
    5xx, no answer outside its schema), then 1,000 requests in a row and 32 at once, with what memory grows by; about
    ten minutes. The suite makes a few requests of each kind.

python -m tests.campaigns.real_engines    llama.cpp's server, vLLM and a Coppice, asked from the window: answers, stops,
    errors, deaths, and what they tell of their speculation; five minutes. Needs `pip install xllamacpp`, and for vLLM
    an environment of its own (--vllm PROGRAM); what is not there is left out.

A test chooses with `tests.campaigns.extent.choose(quick, whole)`: the proof and its representative are the same code.
`-p tests.campaigns.processor_time --processor-times FILE` tells what each test costs in processor time.
"""
