"""Downloads from the model hub into its standard cache, or a folder: no Qt, no torch, and nothing fetched twice.

`DownloadQueue` runs several `Download`s at a time, each on a thread of its own; what they are doing is read as
`Progress`. A `Download` can also be run alone, as `coppice download` does.
"""
